-- Adds lines to the audit log and moves its head, if the head is where the caller thinks.
-- Guarantees: all lines and the new head, or nothing.
-- Index: the primary key of audit_ends.
-- Concurrency: servers that append at once wait for the row of the ends; all but the first find another head there.
WITH moved AS (
    UPDATE audit_ends SET head_seq = $3::bigint, head_hash = $4::bytea, signature = $5::bytea
    WHERE id = 1 AND head_seq = $1::bigint AND head_hash = $2::bytea
    RETURNING id
)
INSERT INTO audit (seq, at, line, hash)
SELECT new.seq, new.at, new.line, new.hash
FROM moved, unnest($6::bigint[], $7::bigint[], $8::text[], $9::bytea[]) AS new (seq, at, line, hash)
