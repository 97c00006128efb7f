-- Which database this is, and how many commits it has seen.
-- Guarantees: both or nothing, from one snapshot.
-- Index: the primary key.
-- Concurrency: read when the store is opened.
SELECT identity.value, commits.value FROM meta AS identity, meta AS commits
WHERE identity.key = 'identity' AND commits.key = 'commits'
