-- What is known of an attempt besides how it ended, as JSON; mostly nothing. A column without a default costs the
-- rows that are there nothing, and partitions of history get it with the table.
ALTER TABLE history ADD COLUMN details text;
ALTER TABLE attempt ADD COLUMN details text;
