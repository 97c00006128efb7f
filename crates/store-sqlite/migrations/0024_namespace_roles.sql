-- A key counts in one namespace, by its number, or in the cluster: then there is nothing. All keys until now are the cluster's.
-- Two namespaces may have keys of one name.
UPDATE identity_key SET namespace = '';
DROP INDEX identity_key_name;
CREATE UNIQUE INDEX identity_key_name ON identity_key (namespace, name) WHERE revoked_at IS NULL AND replaced_by IS NULL;
