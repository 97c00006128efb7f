-- The worker that joined with this token and key.
-- Index: enrolment_key.
-- Concurrency: after bump_enrolments: of two requests of one worker the second finds the row of the first.
SELECT id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision FROM enrolment WHERE join_token = $1 AND key_sha256 = $2
