-- Remembers that a running job was asked to end; asking twice is asking once.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT OR IGNORE INTO cancel_request (job) VALUES (?1)
