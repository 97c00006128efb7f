-- Where the log of an attempt that ended is in object storage, and how long it is.
ALTER TABLE history ADD COLUMN log_path TEXT;
ALTER TABLE history ADD COLUMN log_bytes INTEGER;
ALTER TABLE attempt ADD COLUMN log_path TEXT;
ALTER TABLE attempt ADD COLUMN log_bytes INTEGER;

-- Objects that nothing names any more and that are still to be deleted.
CREATE TABLE dropped_log (
    path TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
