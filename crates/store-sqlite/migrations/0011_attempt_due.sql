-- When an attempt that did not end its job was due; null: when the job was due at first. Attempts of before this column
-- keep null, as nobody knows it any more.
ALTER TABLE attempt ADD COLUMN due_at INTEGER;
