-- When an attempt that did not end its job was due; null: when the job was due at first. Attempts of before this column
-- keep null, as nobody knows it any more. A column without a default costs the rows that are there nothing.
ALTER TABLE attempt ADD COLUMN due_at bigint;
