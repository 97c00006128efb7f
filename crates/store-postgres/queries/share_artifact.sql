-- One artifact, which stays as it is until the transaction has ended.
-- Index: the primary key.
-- Concurrency: waits for an arrival, a refusal or a removal that is under way, and holds the next off. Does not hold
-- off others who share it.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE id = $1 FOR SHARE
