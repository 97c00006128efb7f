-- The store's clock.
-- Index: none.
-- Concurrency: touches nothing.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
