-- Finished jobs that ended before they were first due, such as deleted ones: their ids lie in the future.
-- Index: history_early; the condition is its own, or it would not be used.
-- Concurrency: run by the writer in the transaction that removes them.
SELECT id FROM history WHERE early = 1 AND finished_at < ?1 ORDER BY finished_at, id LIMIT ?2
