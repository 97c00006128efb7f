-- Notes another certificate of a worker that is not revoked.
-- Index: the primary key; enrolment_revision and enrolment_expires follow.
-- Concurrency: after bump_enrolments: a revocation at the same time is before it, or counts for the new certificate.
UPDATE enrolment SET renewed_at = $2, expires_at = $3, revision = $4 WHERE id = $1 AND revoked_at IS NULL
RETURNING id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision
