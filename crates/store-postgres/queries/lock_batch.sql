-- One batch, to be changed in this transaction.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: holds the row until the transaction ends, so that steps of one batch follow each other. A transaction of an owner
-- locks its batches in order of id, after its runs.
SELECT id, namespace, name, made_at, made_by, requester, due_at, tasks, members, status, state FROM batch WHERE id = $1 FOR UPDATE
