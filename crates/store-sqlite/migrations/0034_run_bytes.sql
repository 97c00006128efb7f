-- What the nodes of a run came to, as bytes. `state` holds it for runs that only earlier versions wrote, and is empty otherwise.
ALTER TABLE workflow_run ADD COLUMN packed BLOB;
