-- Removes notices that are dealt with.
-- Guarantees: as many rows as were there. The caller gives up unless those are all.
-- Index: the primary key.
-- Concurrency: who takes one of them at the same time is waited for; then it is not there.
DELETE FROM notice WHERE seq = ANY ($1::bigint[])
