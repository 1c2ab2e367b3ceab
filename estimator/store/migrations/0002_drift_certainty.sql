-- How sure an event is, how long it took to be seen, and what moved. Older events do not say.
ALTER TABLE drift_event ADD COLUMN z REAL NOT NULL DEFAULT 0.0;
ALTER TABLE drift_event ADD COLUMN completions_to_detect INTEGER NOT NULL DEFAULT 0;
ALTER TABLE drift_event ADD COLUMN detail TEXT NOT NULL DEFAULT '';
