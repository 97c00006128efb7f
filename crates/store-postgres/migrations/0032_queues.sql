-- Queues that somebody has paused or described. Others are names in tasks.
CREATE TABLE queue (
    state_at   bigint NOT NULL,
    changed_at bigint NOT NULL,
    namespace  integer NOT NULL,
    revision   integer NOT NULL,
    -- 0 active, 1 paused, 2 draining
    state      smallint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    state_by   text NOT NULL,
    changed_by text NOT NULL,
    note       text,
    spec       text NOT NULL,
    PRIMARY KEY (namespace, name)
);
-- The revision of all changes. Who changes a queue holds its lock.
CREATE TABLE queue_counter (
    revision bigint NOT NULL,
    id       integer NOT NULL PRIMARY KEY CHECK (id = 1)
);
INSERT INTO queue_counter (id, revision) VALUES (1, 0);

-- The queues that tasks name, each read once. The namespace is an expression: without statistics, this index would otherwise look as good as
-- task_live_name to whoever looks for a name.
CREATE INDEX task_queue ON task ((namespace::bigint), queue COLLATE "C") WHERE NOT deleted AND name IS NOT NULL;
