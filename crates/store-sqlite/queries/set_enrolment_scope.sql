-- Changes what a worker may do.
-- Index: the primary key; enrolment_revision follows.
-- Concurrency: only the writer runs it.
UPDATE enrolment SET scope = ?2, revision = ?3 WHERE id = ?1
