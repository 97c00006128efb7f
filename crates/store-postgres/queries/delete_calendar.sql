-- Removes a calendar that no schedule refers to.
-- Index: the primary keys.
-- Concurrency: a schedule that is stored at the same moment may refer to a calendar that is gone.
DELETE FROM calendar WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM calendar_use WHERE calendar_use.calendar = $1)
