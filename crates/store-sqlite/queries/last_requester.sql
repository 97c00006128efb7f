-- The largest number that was given; none is removed.
-- Index: the primary key, backwards.
-- Concurrency: a snapshot. Two who look at once may both find room for one more.
SELECT max(id) FROM requester
