-- How many namespaces there are, and how many were deleted and are still on record. They are few.
-- Index: none; the table is read through.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(deleted_at) FROM namespace
