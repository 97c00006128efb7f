-- As list_schedules, those of one task:
-- schedules that do not fit are looked at here and not sent. The last one that is looked at is sent in any case, so that
-- the next page can go on after it.
-- Guarantees: looks at no more than $4 rows, and sends no more than $6. Inputs are not read.
-- Index: schedule_task, in its order.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, schedule.task, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note, schedule.skip_until,
       schedule.runs, schedule.failures, schedule.last_success, schedule.namespace, schedule.calendars::text, schedule.created_at, schedule.created_by,
       schedule.changed_at, schedule.changed_by, schedule.place = $4, schedule.fits
FROM (
    SELECT *, row_number() OVER (ORDER BY name) AS place,
           namespace = $7 AND ($5::boolean IS NULL OR (paused_at IS NOT NULL) = $5) AS fits
    FROM schedule WHERE task = $8 AND name > $1 AND name >= $2 AND name < $3
    ORDER BY name LIMIT $4
) AS schedule
WHERE schedule.fits OR schedule.place = $4
ORDER BY schedule.name LIMIT $6
