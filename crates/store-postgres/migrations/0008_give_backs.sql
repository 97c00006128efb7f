-- Starts of a job that were taken back, as JSON, and where the job stands among those that were given back and may be late.
-- Both are NULL for nearly all jobs, which costs no byte: a row has room for them in its bitmap of NULLs.
ALTER TABLE job ADD COLUMN late_from bigint, ADD COLUMN give_backs text;
CREATE INDEX job_given_back ON job (late_from, id) WHERE late_from IS NOT NULL;
