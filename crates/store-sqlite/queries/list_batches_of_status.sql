-- Batches of a namespace with one status, the latest first, before one of them.
-- Guarantees: each once.
-- Index: batch_of_status, backwards.
-- Concurrency: a snapshot.
SELECT id, namespace, name, made_at, made_by, requester, due_at, tasks, members, status, state FROM batch WHERE namespace = ?1 AND status = ?4 AND id < ?2 ORDER BY id DESC LIMIT ?3
