-- Nobody has confirmed the new stage of the cluster's secret yet.
-- Index: none; there are few.
-- Concurrency: in the transaction that changes the stage.
DELETE FROM cluster_secret_server
