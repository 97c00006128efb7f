-- Remembers that workers and servers are used.
-- Index: UNIQUE (id).
-- Concurrency: rows are locked in the order given. One that retention removed meanwhile is not there any more.
UPDATE node SET used_at = greatest(node.used_at, $2::bigint)
FROM unnest($1::uuid[]) AS used (id) WHERE node.id = used.id
