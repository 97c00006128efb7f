-- The revision of the change that follows.
-- Guarantees: revisions are committed in their order.
-- Index: the primary key.
-- Concurrency: others who change tokens or enrolments wait until the transaction has ended.
UPDATE enrolment_counter SET revision = revision + 1 WHERE id = 1 RETURNING revision
