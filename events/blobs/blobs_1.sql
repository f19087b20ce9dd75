-- The texts of a log of format 1: every event names them by 64 hex digits, each is packed alone.

CREATE TABLE blobs (
  id     INTEGER PRIMARY KEY,                 -- counter within this file, from 1
  sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),  -- of the uncompressed content
  codec  TEXT NOT NULL,                       -- 'raw' or 'zlib'
  size   INTEGER NOT NULL,                    -- bytes, uncompressed
  data   BLOB NOT NULL
) STRICT;

CREATE TABLE event_blobs (
  seq    INTEGER NOT NULL REFERENCES events,
  pos    INTEGER NOT NULL,                    -- order within the event, from 0
  name   TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES blobs (sha256),
  PRIMARY KEY (seq, pos)
) STRICT, WITHOUT ROWID;

-- The same content may be stored again by any event: the second time is a no-op.
CREATE TRIGGER blobs_insert BEFORE INSERT ON blobs
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM blobs WHERE sha256 = NEW.sha256);
  SELECT RAISE(ABORT, 'append-only: blobs are numbered without gaps')
  WHERE NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM blobs);
END;
CREATE TRIGGER blobs_update BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'append-only: blobs can not be changed'); END;
CREATE TRIGGER blobs_delete BEFORE DELETE ON blobs
BEGIN SELECT RAISE(ABORT, 'append-only: blobs can not be deleted'); END;

CREATE TRIGGER event_blobs_insert BEFORE INSERT ON event_blobs
WHEN NEW.seq IS NOT (SELECT max(seq) FROM events)
  OR NEW.pos IS NOT (SELECT coalesce(max(pos), -1) + 1 FROM event_blobs WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'append-only: blobs are attached with their event, in order'); END;
CREATE TRIGGER event_blobs_update BEFORE UPDATE ON event_blobs
BEGIN SELECT RAISE(ABORT, 'append-only: event_blobs can not be changed'); END;
CREATE TRIGGER event_blobs_delete BEFORE DELETE ON event_blobs
BEGIN SELECT RAISE(ABORT, 'append-only: event_blobs can not be deleted'); END;
