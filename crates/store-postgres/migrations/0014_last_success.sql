-- The latest planned time whose run has succeeded. In no index, so that a new version of the row stays in its page.
ALTER TABLE schedule ADD COLUMN last_success bigint;
