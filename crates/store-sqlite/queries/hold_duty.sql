-- Takes a duty that is free, or prolongs it for its owner.
-- Guarantees: the epoch rises each time the duty changes hands; no row comes back while another holds it.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO duty (name, owner, epoch, lease_until) VALUES (?1, ?2, 1, ?4)
ON CONFLICT (name) DO UPDATE SET
    epoch = epoch + (owner <> excluded.owner), owner = excluded.owner, lease_until = excluded.lease_until
WHERE owner = excluded.owner OR lease_until <= ?3
RETURNING epoch
