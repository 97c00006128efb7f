-- Batches. What members have come to is in `state`, as JSON; it is read and written with each end of a member. The jobs of a batch
-- are worked out from its id.
CREATE TABLE batch (
    id        BLOB PRIMARY KEY,
    namespace INTEGER NOT NULL,
    name      TEXT,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    requester INTEGER,
    due_at    INTEGER NOT NULL,
    tasks     BLOB NOT NULL,
    members   BLOB NOT NULL,
    status    INTEGER NOT NULL,
    state     TEXT NOT NULL,
    wake_at   INTEGER,
    ended_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_listed ON batch (namespace, id);
CREATE INDEX batch_of_status ON batch (namespace, status, id);
CREATE INDEX batch_wake ON batch (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX batch_ended ON batch (ended_at, id) WHERE ended_at IS NOT NULL;
