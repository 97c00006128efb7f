-- Who did what: lines in a chain of hashes, and where the chain begins and ends.
CREATE TABLE audit (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    -- Byte for byte: the hash is that of the line and of the hash before it.
    line TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TABLE audit_ends (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    base_seq  INTEGER NOT NULL,
    base_hash BLOB NOT NULL,
    head_seq  INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    -- Of the head.
    signature BLOB NOT NULL
) STRICT;
INSERT INTO audit_ends VALUES (1, 0, zeroblob(32), 0, zeroblob(32), x'');
