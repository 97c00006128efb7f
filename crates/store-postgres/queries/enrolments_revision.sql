-- The latest revision of any enrolment.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT revision FROM enrolment_counter WHERE id = 1
