-- Stores the row of a queue.
-- Index: the primary key.
-- Concurrency: after bump_queues, in the transaction that read its revision.
INSERT INTO queue (namespace, name, revision, state, state_at, state_by, note, changed_at, changed_by, spec)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (namespace, name) DO UPDATE SET revision = excluded.revision, state = excluded.state, state_at = excluded.state_at,
    state_by = excluded.state_by, note = excluded.note, changed_at = excluded.changed_at, changed_by = excluded.changed_by,
    spec = excluded.spec
