-- Namespaces whose history is gone.
-- Index: namespace_deleted. There are some thousand at most.
-- Concurrency: nobody changes a namespace that was deleted.
DELETE FROM namespace WHERE deleted_at < $1
