-- Starts of a job that were taken back, as JSON; NULL for nearly all jobs.
ALTER TABLE job ADD COLUMN give_backs TEXT;
-- Where a job stands among those that were given back and may be late; NULL for all others.
ALTER TABLE job ADD COLUMN late_from INTEGER;

CREATE INDEX job_given_back ON job (late_from, id) WHERE late_from IS NOT NULL;
