-- Notes when keys were used.
-- Guarantees: no time goes back.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_key SET changed = $3, last_used_at = used.at
FROM unnest($1::bigint[], $2::bigint[]) AS used (id, at)
WHERE identity_key.id = used.id AND (last_used_at IS NULL OR last_used_at < used.at)
