-- Removes servers that were not seen since a moment.
-- Index: none; there are few.
-- Concurrency: a server that is seen meanwhile stays: its row is looked at again once its lock is free.
DELETE FROM member WHERE seen_at < $1
