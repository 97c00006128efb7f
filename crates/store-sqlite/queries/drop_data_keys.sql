-- Removes the data keys of a namespace: the first, and later ones, whose labels go on with a slash.
-- Index: the primary key, as one range in which other labels are left out.
-- Concurrency: in the transaction that deletes the namespace; only the writer runs it.
DELETE FROM sealed_key WHERE label >= ?1 AND label < ?1 || '0' AND (label = ?1 OR label >= ?1 || '/')
