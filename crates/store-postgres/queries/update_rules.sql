-- Keeps what waits to be sent by rules.
-- Guarantees: as many rows as there are rules with these versions. The caller gives up unless those are all.
-- Index: the primary key.
-- Concurrency: rows are locked in the order given, which is by name. Who changes one at the same time is waited for;
-- then its version is another.
UPDATE notification_rule SET state = new.state, version = notification_rule.version + 1
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::integer[]) AS new (name, version, state, namespace)
WHERE notification_rule.namespace = new.namespace AND notification_rule.name = new.name AND notification_rule.version = new.version
