-- Who asks for jobs. Rows of jobs have the number and nothing else of it.
CREATE TABLE requester (
    id        INTEGER PRIMARY KEY,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    -- The person behind it, or 0.
    person    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX requester_name ON requester (name, kind, person);
ALTER TABLE job ADD COLUMN requester INTEGER;
ALTER TABLE history ADD COLUMN requester INTEGER;

-- Commands on jobs: who cancelled, deleted, retried or started which, and when.
CREATE TABLE job_action (
    job       BLOB NOT NULL,
    at        INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    requester INTEGER NOT NULL,
    PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;

ALTER TABLE task ADD COLUMN created_by TEXT;
ALTER TABLE task ADD COLUMN changed_by TEXT;
-- Who asked for a run that was not planned.
ALTER TABLE occurrence ADD COLUMN requested_by TEXT;
