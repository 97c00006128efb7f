-- Records everything that one shard started in one batch.
-- Guarantees: a second record of the same name is a constraint violation.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO start_batch (shard, epoch, seq, server, starts) VALUES (?1, ?2, ?3, ?4, ?5)
