-- Due runs are read page by page, in this order.
DROP INDEX workflow_run_wake;
CREATE INDEX workflow_run_wake ON workflow_run (wake_at, id) WHERE wake_at IS NOT NULL;
