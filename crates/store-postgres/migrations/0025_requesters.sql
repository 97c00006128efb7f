-- Who asks for jobs. Rows of jobs have the number and nothing else of it.
CREATE TABLE requester (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The person behind it, or 0.
    person bigint NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX requester_name ON requester (name, kind, person);
ALTER TABLE job ADD COLUMN requester integer;
ALTER TABLE history ADD COLUMN requester integer;

-- Commands on jobs: who cancelled, deleted, retried or started which, and when.
CREATE TABLE job_action (
    job       uuid NOT NULL,
    at        bigint NOT NULL,
    requester integer NOT NULL,
    kind      smallint NOT NULL,
    PRIMARY KEY (job, at)
);

ALTER TABLE task ADD COLUMN created_by text, ADD COLUMN changed_by text;
-- Who asked for a run that was not planned.
ALTER TABLE occurrence ADD COLUMN requested_by text;
