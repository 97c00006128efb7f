-- What an operator should know of the database.
-- Guarantees: one row; nothing is changed.
-- Index: none, it reads no table. Every user may count the standbys, though not see their states.
-- Concurrency: locks nothing.
SELECT split_part(current_setting('server_version'), ' ', 1),
       current_setting('server_version_num')::int,
       current_setting('fsync') = 'on',
       current_setting('synchronous_commit'),
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       current_setting('max_connections')::int,
       current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication
        WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL))
