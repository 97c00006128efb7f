-- That a finished job was made eligible again: when, what it had been, and the number of its next attempt.
CREATE TABLE rerun (
    job          uuid NOT NULL,
    at           bigint NOT NULL,
    next_attempt integer NOT NULL,
    state        smallint NOT NULL
);

CREATE INDEX rerun_job ON rerun (job, at, next_attempt);
