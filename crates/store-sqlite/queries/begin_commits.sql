-- Gives the database a count of commits, if it has none.
-- Guarantees: a count that is there is not changed by this.
-- Index: the primary key.
-- Concurrency: only the writer runs it, before anybody else.
INSERT OR IGNORE INTO meta (key, value) VALUES ('commits', 0)
