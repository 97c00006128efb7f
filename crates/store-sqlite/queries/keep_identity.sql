-- Gives the database a random identity, if it has none.
-- Guarantees: an identity that is there is not changed by this.
-- Index: the primary key.
-- Concurrency: only the writer runs it, before anybody else.
INSERT OR IGNORE INTO meta (key, value) VALUES ('identity', lower(hex(randomblob(16))))
