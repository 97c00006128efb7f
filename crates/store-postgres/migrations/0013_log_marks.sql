-- When the bytes of a piece were written, and to which stream.
ALTER TABLE log ADD COLUMN marks bytea;
