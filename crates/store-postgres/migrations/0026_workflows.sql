-- Versions of workflows. None ever changes.
CREATE TABLE workflow (
    namespace integer NOT NULL,
    name      text COLLATE "C" NOT NULL,
    version   integer NOT NULL,
    spec      text NOT NULL,
    made_at   bigint NOT NULL,
    made_by   text NOT NULL,
    PRIMARY KEY (namespace, name, version)
);

-- Runs of workflows. What nodes came to is in `state`, as JSON; it is read and written with each end of a job.
CREATE TABLE workflow_run (
    id        uuid PRIMARY KEY,
    namespace integer NOT NULL,
    workflow  text COLLATE "C" NOT NULL,
    version   integer NOT NULL,
    made_at   bigint NOT NULL,
    made_by   text NOT NULL,
    input     bytea,
    tasks     bytea NOT NULL,
    status    smallint NOT NULL,
    state     text NOT NULL,
    wake_at   bigint,
    ended_at  bigint
);
CREATE INDEX workflow_run_listed ON workflow_run (namespace, id);
CREATE INDEX workflow_run_of_workflow ON workflow_run (namespace, workflow, id);
CREATE INDEX workflow_run_wake ON workflow_run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflow_run_ended ON workflow_run (ended_at, id) WHERE ended_at IS NOT NULL;

-- Outputs that other nodes of the run read.
CREATE TABLE workflow_output (
    run    uuid NOT NULL,
    node   integer NOT NULL,
    item   integer NOT NULL,
    output bytea NOT NULL,
    PRIMARY KEY (run, node, item)
);

-- Locked by whoever adds a workflow, so that their number stays.
INSERT INTO meta (key, value) VALUES ('workflows', '');
