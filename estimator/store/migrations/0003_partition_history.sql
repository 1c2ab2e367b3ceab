-- The partitions that came into force. queues holds boundaries, names, extents, means and shares as
-- JSON: they are only ever read together.
CREATE TABLE partition_revision (
    revision_id      INTEGER PRIMARY KEY,
    model            TEXT NOT NULL,
    number           INTEGER NOT NULL,
    queues           TEXT NOT NULL,
    reason           TEXT NOT NULL,
    detail           TEXT NOT NULL,
    completions      INTEGER NOT NULL,
    points           INTEGER NOT NULL,
    fit_s            REAL NOT NULL,
    installed_s      REAL NOT NULL,
    snapshot_version INTEGER NOT NULL
);
CREATE INDEX partition_revision_by_model ON partition_revision (model);
