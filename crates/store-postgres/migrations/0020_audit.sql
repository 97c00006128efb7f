-- Who did what: lines in a chain of hashes, and where the chain begins and ends.
CREATE TABLE audit (
    seq  bigint PRIMARY KEY,
    at   bigint NOT NULL,
    -- Byte for byte: the hash is that of the line and of the hash before it.
    line text NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE audit_ends (
    id        bigint PRIMARY KEY CHECK (id = 1),
    base_seq  bigint NOT NULL,
    base_hash bytea NOT NULL,
    head_seq  bigint NOT NULL,
    head_hash bytea NOT NULL,
    -- Of the head.
    signature bytea NOT NULL
);
INSERT INTO audit_ends VALUES (1, 0, decode(repeat('00', 32), 'hex'), 0, decode(repeat('00', 32), 'hex'), '');
