-- That a finished job was made eligible again: when, what it had been, and the number of its next attempt.
CREATE TABLE rerun (
    job          BLOB NOT NULL,
    at           INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    next_attempt INTEGER NOT NULL
) STRICT;

CREATE INDEX rerun_job ON rerun (job, at, next_attempt);
