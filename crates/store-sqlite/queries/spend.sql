-- Takes from the time of a namespace, unless it is too far ahead.
-- Guarantees: the time never goes back.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO submission_rate (namespace, paid_until) VALUES (?1, ?3 + ?2)
ON CONFLICT (namespace) DO UPDATE SET paid_until = max(paid_until, ?3) + ?2 WHERE paid_until < ?3 + ?4
