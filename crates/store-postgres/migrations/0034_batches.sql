-- Batches. What members have come to is in `state`, as JSON; it is read and written with each end of a member. The jobs of a batch
-- are worked out from its id.
CREATE TABLE batch (
    id        uuid PRIMARY KEY,
    namespace integer NOT NULL,
    name      text,
    made_at   bigint NOT NULL,
    made_by   text NOT NULL,
    requester integer,
    due_at    bigint NOT NULL,
    tasks     bytea NOT NULL,
    members   bytea NOT NULL,
    status    smallint NOT NULL,
    state     text NOT NULL,
    wake_at   bigint,
    ended_at  bigint
);
CREATE INDEX batch_listed ON batch (namespace, id);
CREATE INDEX batch_of_status ON batch (namespace, status, id);
CREATE INDEX batch_wake ON batch (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX batch_ended ON batch (ended_at, id) WHERE ended_at IS NOT NULL;
