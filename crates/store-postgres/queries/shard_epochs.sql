-- The epochs under which shards may be written, for a second look at a batch that did not fit.
-- Index: the primary key.
-- Concurrency: as fence.
SELECT id, epoch FROM shard WHERE id = ANY ($1::smallint[]) ORDER BY id FOR KEY SHARE
