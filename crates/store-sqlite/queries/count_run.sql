-- A schedule that is limited to a number of runs has fired once more.
-- Guarantees: counts to the largest number that there is and stays there.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence, in the transaction that gives the verdict.
UPDATE schedule SET runs = runs + 1 WHERE shard = ?1 AND id = ?2 AND runs < 4294967295
