-- One batch, if it is of this namespace. One of another takes as long as one that is not there, however large it is.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, namespace, name, made_at, made_by, requester, due_at, tasks, members, status, state FROM batch WHERE id = ?1 AND namespace = ?2
