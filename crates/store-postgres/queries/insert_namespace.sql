-- Stores a new namespace, unless its name is taken or there are too many, of which the answer says what it is.
-- Guarantees: a name is held by one row that was not deleted; a second one is a constraint violation.
-- Index: namespace_name and namespace_deleted; what is counted is a table of some thousand rows.
-- Concurrency: under the lock of bump_namespaces, so that what is counted stays true.
WITH known AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM namespace WHERE name = $2 AND deleted_at IS NULL) AS is_taken,
           (SELECT count(*) FROM namespace) - (SELECT count(*) FROM namespace WHERE deleted_at IS NOT NULL) >= $6
           OR (SELECT count(*) FROM namespace WHERE deleted_at IS NOT NULL) >= $7 AS is_full
), stored AS (
    INSERT INTO namespace (id, name, revision, created_at, created_by, changed_at, changed_by, spec)
    SELECT $1, $2, 1, $3, $4, $3, $4, $5 FROM known WHERE NOT is_taken AND NOT is_full
)
SELECT is_taken, is_full FROM known
