-- What is known of an attempt besides how it ended, as JSON; mostly nothing.
ALTER TABLE history ADD COLUMN details TEXT;
ALTER TABLE attempt ADD COLUMN details TEXT;
