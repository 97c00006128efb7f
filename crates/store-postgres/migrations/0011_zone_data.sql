-- The version of a server's time zone data, so that servers whose data differs are noticed.
ALTER TABLE member ADD COLUMN zone_data text NOT NULL DEFAULT '';
