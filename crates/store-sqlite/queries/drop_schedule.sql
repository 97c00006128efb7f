-- Removes a schedule. Its occurrences and its changes stay until retention takes them.
-- Guarantees: one row or none; none when it is not there.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
DELETE FROM schedule WHERE shard = ?1 AND id = ?2
