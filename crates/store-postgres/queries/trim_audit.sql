-- Removes the lines of the audit log up to a place, which becomes its base.
-- Guarantees: the base never moves back, and not beyond the head. No line after it is touched.
-- Index: the primary keys.
-- Concurrency: servers that trim at once wait for the row of the ends; the second finds nothing to do.
WITH moved AS (
    UPDATE audit_ends SET base_seq = $1::bigint, base_hash = $2::bytea
    WHERE id = 1 AND base_seq < $1::bigint AND head_seq >= $1::bigint
    RETURNING id
)
DELETE FROM audit WHERE seq <= $1::bigint AND EXISTS (SELECT FROM moved)
