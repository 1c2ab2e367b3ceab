-- Columns without a type hold a label's number or, once the table of labels is full, the text
-- itself. They must stay untyped: an INTEGER column would turn the text '12' into a number.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

-- Names that repeat in every row (models, languages, clients), stored once.
CREATE TABLE label (
    label_id INTEGER PRIMARY KEY,
    text     TEXT NOT NULL UNIQUE
);

-- Row ids are given without gaps and only the oldest are deleted, so that the number of rows is
-- known without counting. horizon_s is set only where finished_s lies after the row's arrival.
CREATE TABLE completion (
    row_id               INTEGER PRIMARY KEY,
    completion_id        TEXT NOT NULL UNIQUE,
    model,
    task,
    language,
    kind,
    duration_source,
    finish_reason,
    request_type,
    queue_id,
    client_id,
    timestamps           INTEGER,
    audio_s              REAL,
    prompt_tokens        INTEGER NOT NULL,
    cached_prompt_tokens INTEGER NOT NULL,
    output_tokens        INTEGER NOT NULL,
    max_tokens           INTEGER,
    finished_s           REAL NOT NULL,
    wait_s               REAL NOT NULL,
    service_s            REAL NOT NULL,
    concurrency          REAL NOT NULL,
    preemptions          INTEGER NOT NULL,
    predicted_tokens     REAL NOT NULL,
    snapshot_version     INTEGER NOT NULL,
    request_hash         TEXT NOT NULL,
    group_id             TEXT NOT NULL,
    priority             INTEGER NOT NULL,
    horizon_s            REAL
);

-- For people with a database tool: the same rows with their names.
CREATE VIEW completion_text AS
SELECT
    row_id, completion_id,
    CASE typeof(model) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = model) ELSE model END AS model,
    CASE typeof(task) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = task) ELSE task END AS task,
    CASE typeof(language) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = language) ELSE language END AS language,
    CASE typeof(kind) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = kind) ELSE kind END AS kind,
    CASE typeof(finish_reason) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = finish_reason) ELSE finish_reason END
        AS finish_reason,
    CASE typeof(client_id) WHEN 'integer'
        THEN (SELECT text FROM label WHERE label_id = client_id) ELSE client_id END AS client_id,
    timestamps, audio_s, prompt_tokens, output_tokens, finished_s, wait_s, service_s,
    concurrency, predicted_tokens, snapshot_version
FROM completion;

CREATE TABLE kappa_point (
    point_id           INTEGER PRIMARY KEY,
    model,
    task,
    language,
    timestamps         INTEGER,
    recorded_s         REAL NOT NULL,
    kappa_tokens_per_s REAL NOT NULL,
    intercept_tokens   REAL NOT NULL,
    sample_count       INTEGER NOT NULL,
    snapshot_version   INTEGER NOT NULL
);
CREATE INDEX kappa_point_by_key ON kappa_point (model, task, language, timestamps);

CREATE TABLE drift_event (
    drift_id             INTEGER PRIMARY KEY,
    event_id             TEXT NOT NULL UNIQUE,
    kind                 TEXT NOT NULL,
    model                TEXT NOT NULL,
    task                 TEXT NOT NULL,
    language             TEXT NOT NULL,
    timestamps           INTEGER,
    detected_s           REAL NOT NULL,
    before               REAL NOT NULL,
    after                REAL NOT NULL,
    completions_to_adapt INTEGER,
    ended_s              REAL
);

CREATE TABLE mode_change (
    change_id     INTEGER PRIMARY KEY,
    changed_s     REAL NOT NULL,
    mode          TEXT NOT NULL,
    previous_mode TEXT NOT NULL,
    actor         TEXT NOT NULL,
    reason        TEXT NOT NULL,
    request_id    TEXT NOT NULL
);
CREATE INDEX mode_change_by_request ON mode_change (request_id) WHERE request_id <> '';

CREATE TABLE checkpoint (
    checkpoint_id    INTEGER PRIMARY KEY,
    row_id           INTEGER NOT NULL,
    snapshot_version INTEGER NOT NULL,
    created_s        REAL NOT NULL,
    state            TEXT NOT NULL,
    sha256           TEXT NOT NULL
);
