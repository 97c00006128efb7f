-- Workers that were seen: who ran an attempt stays known when the worker is gone.
CREATE TABLE worker (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    host          text,
    version       text NOT NULL,
    first_seen_at bigint NOT NULL,
    last_seen_at  bigint NOT NULL,
    -- When it said that it leaves.
    left_at       bigint
);
CREATE INDEX worker_last_seen ON worker (last_seen_at, id);
