-- The newest version of each workflow of a namespace, in order of name, after a name.
-- Guarantees: each name once.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT namespace, name, version, spec, made_at, made_by FROM workflow AS newest
WHERE namespace = ?1 AND name > ?2
  AND NOT EXISTS (
      SELECT 1 FROM workflow AS later
      WHERE later.namespace = newest.namespace AND later.name = newest.name AND later.version > newest.version
  )
ORDER BY name LIMIT ?3
