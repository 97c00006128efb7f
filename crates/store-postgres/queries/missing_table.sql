-- A table that was dropped.
-- Guarantees: no row if all are there, in the schema that the other statements use.
-- Index: those of the catalog.
-- Concurrency: a snapshot.
SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(quote_ident(name)) IS NULL LIMIT 1
