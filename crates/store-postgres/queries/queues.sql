-- All queues with a row in order of namespace and name, with the revision of all changes.
-- Index: queue_pkey, in its order; that of the one row of queue_counter.
-- Concurrency: one snapshot.
SELECT namespace, name, revision, state, state_at, state_by, note, changed_at, changed_by, spec,
       (SELECT queue_counter.revision FROM queue_counter WHERE id = 1) AS all_changes
FROM queue ORDER BY namespace, name
