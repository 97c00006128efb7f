-- The fence: an error unless every shard has the epoch under which it is to be written, so that the whole
-- transaction can be sent at once. Also an error unless the batch before this one committed on this connection.
-- Also in apply_plain.sql: change both.
-- Index: the primary key.
-- Concurrency: FOR KEY SHARE holds off who would take the shard, until this transaction has ended. It does not hold
-- off renewals.
SELECT 1 / (count(*) = cardinality($1::smallint[]) AND current_setting('punctual.last') = $3)::int,
       set_config('punctual.last', $4, false)
FROM (
    SELECT 1
    FROM unnest($1::smallint[], $2::bigint[]) AS fenced (shard, epoch)
    JOIN shard ON shard.id = fenced.shard AND shard.epoch = fenced.epoch
    FOR KEY SHARE OF shard
) AS held
