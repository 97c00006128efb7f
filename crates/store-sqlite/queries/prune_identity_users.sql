-- Removes people who were deleted before a moment.
-- Index: none; they are few.
-- Concurrency: only the writer runs it.
DELETE FROM identity_user WHERE deleted_at < ?1
