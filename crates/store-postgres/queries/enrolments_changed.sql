-- Enrolments that have changed since a revision, in order of their changes.
-- Index: enrolment_revision, in its order.
-- Concurrency: a snapshot. Revisions are committed in their order, so none appears later before the last that is read.
SELECT id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision FROM enrolment WHERE revision > $1 ORDER BY revision LIMIT $2
