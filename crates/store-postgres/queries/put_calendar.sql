-- Stores a calendar or replaces its dates, and answers its revision: one more than any calendar ever had.
-- Index: the primary keys.
-- Concurrency: the row of `meta` is locked, so that who stores another at the same time gets the next number.
WITH next AS (
    UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'calendars' RETURNING value::bigint AS revision
)
INSERT INTO calendar (name, revision, changed_at, changed_by, dates, namespace)
SELECT $1, next.revision, $2, $3, $4, $5 FROM next
ON CONFLICT (namespace, name) DO UPDATE SET
    revision = excluded.revision, changed_at = excluded.changed_at, changed_by = excluded.changed_by, dates = excluded.dates
RETURNING revision
