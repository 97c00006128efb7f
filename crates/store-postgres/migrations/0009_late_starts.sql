-- When the run of a planned time started first, if it was more than a second late.
ALTER TABLE occurrence ADD COLUMN started_at bigint;
