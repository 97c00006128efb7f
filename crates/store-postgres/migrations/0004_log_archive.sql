-- Where the log of an attempt that ended is in object storage, and how long it is. Columns without a default cost the
-- rows that are there nothing, and partitions of history get them with the table.
ALTER TABLE history ADD COLUMN log_path text, ADD COLUMN log_bytes bigint;
ALTER TABLE attempt ADD COLUMN log_path text, ADD COLUMN log_bytes bigint;

-- Objects that nothing names any more and that are still to be deleted.
CREATE TABLE dropped_log (
    path text COLLATE "C" PRIMARY KEY
);
