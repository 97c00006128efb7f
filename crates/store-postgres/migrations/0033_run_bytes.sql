-- What the nodes of a run came to, as bytes. `state` holds it for runs that only earlier versions wrote, and is empty otherwise.
-- `stamp` changes with `packed`: what follows from it, worked out beforehand, is only written if nobody changed it meanwhile.
ALTER TABLE workflow_run ADD COLUMN packed bytea, ADD COLUMN stamp bigint;
