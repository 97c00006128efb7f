-- Each end of a job writes the row of its run anew. With room beside it, that is one page and no index.
ALTER TABLE workflow_run SET (fillfactor = 50);

-- Due runs are read page by page, in this order.
DROP INDEX workflow_run_wake;
CREATE INDEX workflow_run_wake ON workflow_run (wake_at, id) WHERE wake_at IS NOT NULL;
