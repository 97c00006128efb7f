-- The latest planned time whose run has succeeded.
ALTER TABLE schedule ADD COLUMN last_success INTEGER;
