-- Takes a duty that is free, or prolongs it for its owner.
-- Guarantees: the epoch rises each time the duty changes hands; no row comes back while another holds it.
-- Index: the primary key.
-- Concurrency: of two who ask at once the second sees what the first wrote.
INSERT INTO duty (name, owner, epoch, lease_until)
VALUES ($1, $2, 1, coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $3::bigint)
ON CONFLICT (name) DO UPDATE SET
    epoch = duty.epoch + (duty.owner <> excluded.owner)::int, owner = excluded.owner, lease_until = excluded.lease_until
WHERE duty.owner = excluded.owner
   OR duty.lease_until <= coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING epoch
