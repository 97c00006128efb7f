-- A pending artifact becomes ready or is refused.
-- Guarantees: changes one row or none.
-- Index: the primary key; the others follow.
-- Concurrency: waits for tasks that are about to refer to it. What follows in the same transaction sees them.
UPDATE artifact SET state = $2, at = $3, detail = $4, used_at = greatest(used_at, $3) WHERE id = $1 AND state = 1
