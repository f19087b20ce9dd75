-- The texts of a log of format 2: numbered, and packed one against another (events/blobs/packing.py).

CREATE TABLE blob_data (
  id     INTEGER PRIMARY KEY,                 -- counter within this file, from 1
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),  -- of the uncompressed content
  codec  TEXT NOT NULL,                       -- 'raw', 'zlib' or 'redacted'
  size   INTEGER NOT NULL,                    -- bytes, uncompressed
  base   INTEGER REFERENCES blob_data,        -- whose content is zlib's preset dictionary
  data   BLOB NOT NULL
) STRICT;
-- A prefix finds a text as well as all of it, in a quarter of the space; the trigger sees to it
-- that each is there once.
CREATE INDEX blob_data_sha256 ON blob_data (substr(sha256, 1, 8));

CREATE TABLE blob_refs (
  seq  INTEGER NOT NULL REFERENCES events,
  pos  INTEGER NOT NULL,                      -- order within the event, from 0
  name TEXT NOT NULL,
  blob INTEGER NOT NULL REFERENCES blob_data,
  PRIMARY KEY (seq, pos)
) STRICT, WITHOUT ROWID;

-- What the tables of format 1 were, for anything that speaks SQL.
CREATE VIEW blobs AS
SELECT id, lower(hex(sha256)) AS sha256, codec, size, data, base FROM blob_data;
CREATE VIEW event_blobs AS
SELECT r.seq, r.pos, r.name, lower(hex(b.sha256)) AS sha256
FROM blob_refs AS r LEFT JOIN blob_data AS b ON b.id = r.blob;

-- The same content may be stored again by any event: the second time is a no-op.
CREATE TRIGGER blob_data_insert BEFORE INSERT ON blob_data
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM blob_data
    WHERE substr(sha256, 1, 8) = substr(NEW.sha256, 1, 8) AND sha256 = NEW.sha256);
  SELECT RAISE(ABORT, 'append-only: blobs are numbered without gaps')
  WHERE NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM blob_data);
  SELECT RAISE(ABORT, 'append-only: a base is an earlier blob that is stored whole')
  WHERE NEW.base IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM blob_data WHERE id = NEW.base AND base IS NULL);
END;
CREATE TRIGGER blob_data_update BEFORE UPDATE ON blob_data
BEGIN SELECT RAISE(ABORT, 'append-only: blobs can not be changed'); END;
CREATE TRIGGER blob_data_delete BEFORE DELETE ON blob_data
BEGIN SELECT RAISE(ABORT, 'append-only: blobs can not be deleted'); END;

CREATE TRIGGER blob_refs_insert BEFORE INSERT ON blob_refs
WHEN NEW.seq IS NOT (SELECT max(seq) FROM events)
  OR NEW.pos IS NOT (SELECT coalesce(max(pos), -1) + 1 FROM blob_refs WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'append-only: blobs are attached with their event, in order'); END;
CREATE TRIGGER blob_refs_update BEFORE UPDATE ON blob_refs
BEGIN SELECT RAISE(ABORT, 'append-only: blob_refs can not be changed'); END;
CREATE TRIGGER blob_refs_delete BEFORE DELETE ON blob_refs
BEGIN SELECT RAISE(ABORT, 'append-only: blob_refs can not be deleted'); END;
