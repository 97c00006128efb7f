-- What was done to a schedule, the latest first.
-- Index: the primary key, in its order backwards.
-- Concurrency: a snapshot.
SELECT at, who, kind, note, former_spec FROM schedule_change WHERE schedule = $1 ORDER BY number DESC LIMIT $2
