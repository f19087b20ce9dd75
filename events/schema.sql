-- Runs and events, alike in every format of the log; its texts are in blobs_1.sql or
-- blobs_2.sql. Everything is append-only, enforced here; what has to be rewritten (search
-- indexes, caches) lives in other files.

CREATE TABLE runs (
  run_id        INTEGER PRIMARY KEY,          -- counter within this file, from 1
  uid           TEXT NOT NULL UNIQUE,         -- the run's identity everywhere; its chain starts from it
  created_us    INTEGER NOT NULL,
  parent_run_id INTEGER REFERENCES runs,      -- a fork shares the parent's events up to parent_seq
  parent_seq    INTEGER
) STRICT;

CREATE TABLE events (
  seq     INTEGER PRIMARY KEY,                -- counter within this file, from 1
  run_id  INTEGER NOT NULL REFERENCES runs,
  run_seq INTEGER NOT NULL,                   -- counter within the run, from 1
  epoch   INTEGER NOT NULL,                   -- rises with each writer that opened the file
  kind    TEXT NOT NULL CHECK (kind IN ('in', 'decision', 'meta')),
  type    TEXT NOT NULL,
  ver     INTEGER NOT NULL,
  ts_us   INTEGER NOT NULL,                   -- wall clock, microseconds since 1970, UTC
  body    TEXT NOT NULL,                      -- JSON
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  UNIQUE (run_id, run_seq)
) STRICT;

-- INSERT OR REPLACE deletes the old row without firing delete triggers, so the insert
-- triggers must refuse whatever would collide, before the conflict is resolved.
CREATE TRIGGER runs_insert BEFORE INSERT ON runs
WHEN NEW.run_id IS NOT (SELECT coalesce(max(run_id), 0) + 1 FROM runs)
  OR EXISTS (SELECT 1 FROM runs WHERE uid = NEW.uid)
BEGIN SELECT RAISE(ABORT, 'append-only: runs are numbered without gaps'); END;
CREATE TRIGGER runs_update BEFORE UPDATE ON runs
BEGIN SELECT RAISE(ABORT, 'append-only: runs can not be changed'); END;
CREATE TRIGGER runs_delete BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'append-only: runs can not be deleted'); END;

CREATE TRIGGER events_insert_seq BEFORE INSERT ON events
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events)
BEGIN SELECT RAISE(ABORT, 'append-only: seq must be the next one'); END;
CREATE TRIGGER events_insert_run_seq BEFORE INSERT ON events
WHEN NEW.run_seq IS NOT coalesce(
  (SELECT max(run_seq) FROM events WHERE run_id = NEW.run_id),
  (SELECT coalesce(parent_seq, 0) FROM runs WHERE run_id = NEW.run_id)) + 1
BEGIN SELECT RAISE(ABORT, 'append-only: run_seq must be the next one of its run'); END;
CREATE TRIGGER events_insert_epoch BEFORE INSERT ON events
WHEN NEW.epoch < (SELECT epoch FROM events ORDER BY seq DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'append-only: a newer writer has taken this log over'); END;
CREATE TRIGGER events_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'append-only: events can not be changed'); END;
CREATE TRIGGER events_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'append-only: events can not be deleted'); END;
