-- The partitions of a table, with their bounds as PostgreSQL writes them.
-- Index: those of the catalogue.
-- Concurrency: a snapshot; who makes or drops one holds the lock of `meta`.
SELECT child.relname::text, pg_get_expr(child.relpartbound, child.oid)
FROM pg_inherits JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = $1::text::regclass
