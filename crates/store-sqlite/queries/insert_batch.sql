-- Stores a batch.
-- Guarantees: a row with the same id is a constraint violation.
-- Index: the primary key; the others follow.
-- Concurrency: only the writer runs it.
INSERT INTO batch (id, namespace, name, made_at, made_by, requester, due_at, tasks, members, status, state, wake_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
