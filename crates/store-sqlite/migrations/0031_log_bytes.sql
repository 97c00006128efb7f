-- How many bytes the archived logs of each namespace have, read from two indexes. The default namespace is in neither.
-- History says whose job it was. An earlier attempt does so when its log is archived; those that were archived before count
-- for nobody.
CREATE INDEX history_log_bytes ON history (namespace, log_bytes) WHERE namespace IS NOT NULL AND log_bytes IS NOT NULL;
ALTER TABLE attempt ADD COLUMN namespace INTEGER;
CREATE INDEX attempt_log_bytes ON attempt (namespace, log_bytes) WHERE namespace IS NOT NULL;
