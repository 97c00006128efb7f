-- All queues with a row, in order of namespace and name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot, the same as for the revision.
SELECT namespace, name, revision, state, state_at, state_by, note, changed_at, changed_by, spec FROM queue
ORDER BY namespace, name
