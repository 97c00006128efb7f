-- Notes when sessions were used.
-- Guarantees: no time goes back.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_session SET changed = $3, last_used_at = used.at
FROM unnest($1::bigint[], $2::bigint[]) AS used (id, at)
WHERE identity_session.id = used.id AND last_used_at < used.at
