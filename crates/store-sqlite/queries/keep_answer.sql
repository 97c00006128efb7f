-- Keeps an answer under a key; one that has expired gives way.
-- Guarantees: durable with the jobs it tells of, or not at all.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT OR REPLACE INTO idempotency (namespace, key, fingerprint, answer, expires_at) VALUES (?5, ?1, ?2, ?3, ?4)
