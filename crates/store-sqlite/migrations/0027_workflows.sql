-- Versions of workflows. None ever changes.
CREATE TABLE workflow (
    namespace INTEGER NOT NULL,
    name      TEXT NOT NULL,
    version   INTEGER NOT NULL,
    spec      TEXT NOT NULL,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    PRIMARY KEY (namespace, name, version)
) STRICT, WITHOUT ROWID;

-- Runs of workflows. What nodes came to is in `state`, as JSON; it is read and written with each end of a job.
CREATE TABLE workflow_run (
    id        BLOB PRIMARY KEY,
    namespace INTEGER NOT NULL,
    workflow  TEXT NOT NULL,
    version   INTEGER NOT NULL,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    input     BLOB,
    tasks     BLOB NOT NULL,
    status    INTEGER NOT NULL,
    state     TEXT NOT NULL,
    wake_at   INTEGER,
    ended_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_run_listed ON workflow_run (namespace, id);
CREATE INDEX workflow_run_of_workflow ON workflow_run (namespace, workflow, id);
CREATE INDEX workflow_run_wake ON workflow_run (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX workflow_run_ended ON workflow_run (ended_at, id) WHERE ended_at IS NOT NULL;

-- Outputs that other nodes of the run read.
CREATE TABLE workflow_output (
    run    BLOB NOT NULL,
    node   INTEGER NOT NULL,
    item   INTEGER NOT NULL,
    output BLOB NOT NULL,
    PRIMARY KEY (run, node, item)
) STRICT, WITHOUT ROWID;
