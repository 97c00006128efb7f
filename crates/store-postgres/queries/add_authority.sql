-- Stores an authority, if its generation is new, and then sets the end of those before it that have none yet. Answers how many
-- were stored.
-- Index: the primary key.
-- Concurrency: of two who add one generation at once the second waits for the first and changes nothing.
WITH added AS (
    INSERT INTO authority (generation, certificate, sealed_key, created_at, retired_at) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (generation) DO NOTHING
    RETURNING generation
), retired AS (
    UPDATE authority SET retired_at = $6
    FROM added
    WHERE authority.generation < added.generation AND authority.generation < $1 AND authority.retired_at IS NULL
)
SELECT count(*) FROM added
