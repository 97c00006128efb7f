-- What an operator should know of the database.
-- Guarantees: one row; nothing is changed.
-- Index: none, it reads no table.
-- Concurrency: locks nothing.
SELECT split_part(current_setting('server_version'), ' ', 1),
       current_setting('server_version_num')::int,
       current_setting('fsync') = 'on',
       current_setting('synchronous_commit'),
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       current_setting('max_connections')::int
