-- Removes people who were deleted before a moment.
-- Index: none; they are few.
-- Concurrency: a row that is changed meanwhile is looked at again.
DELETE FROM identity_user WHERE deleted_at < $1
