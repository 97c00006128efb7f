-- How many sealed keys were removed or changed so far.
-- Guarantees: another number after each removal and change, some seconds later. It begins anew when the server loses its statistics.
-- Index: none of ours; those of the catalogue.
-- Concurrency: a snapshot.
SELECT pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid) FROM pg_class WHERE oid = 'sealed_key'::regclass
