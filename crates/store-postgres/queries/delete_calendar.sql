-- Removes a calendar that no schedule refers to.
-- Guarantees: only the expected revision is removed, if one is expected.
-- Index: the primary keys.
-- Concurrency: the row of `meta` is locked, so that who stores a calendar knows which there are. A schedule that is stored at the same moment may refer to a calendar that is gone.
WITH held AS MATERIALIZED (SELECT 1 FROM meta WHERE key = 'calendars' FOR UPDATE)
DELETE FROM calendar USING held
WHERE calendar.namespace = $3 AND calendar.name = $1 AND ($2::bigint IS NULL OR calendar.revision = $2)
  AND NOT EXISTS (SELECT 1 FROM calendar_use WHERE calendar_use.namespace = $3 AND calendar_use.calendar = $1)
