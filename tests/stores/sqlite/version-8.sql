-- The tables of a file of version 8.
CREATE TABLE gone (id TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (id, key)) WITHOUT ROWID;
CREATE TABLE records (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    kind TEXT NOT NULL,
    layer TEXT NOT NULL,
    origin TEXT NOT NULL,
    category TEXT,
    pinned INTEGER NOT NULL,
    confidence REAL NOT NULL,
    importance REAL NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    seen_count INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER,
    expires_at INTEGER,
    archived_at INTEGER,
    length INTEGER NOT NULL,
    voice TEXT NOT NULL,
    cues TEXT NOT NULL,
    dates TEXT NOT NULL,
    terms TEXT NOT NULL,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    refs TEXT NOT NULL,
    source TEXT NOT NULL,
    archive_reason TEXT NOT NULL,
    metadata TEXT NOT NULL
, parts TEXT);
CREATE UNIQUE INDEX records_id ON records (id);
CREATE UNIQUE INDEX records_live ON records (fingerprint, scope) WHERE archived_at IS NULL;
CREATE INDEX records_newest ON records (updated_at, archived_at, scope, category, kind, tags);
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL,
    scope TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    summary TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE TABLE turns (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (key),
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    at INTEGER NOT NULL,
    scope TEXT NOT NULL,
    speaker TEXT NOT NULL,
    length INTEGER NOT NULL,
    voice TEXT NOT NULL,
    cues TEXT NOT NULL,
    dates TEXT NOT NULL,
    terms TEXT NOT NULL,
    content TEXT NOT NULL,
    tool_calls TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE UNIQUE INDEX turns_id ON turns (id);
CREATE UNIQUE INDEX turns_place ON turns (session, position);
CREATE TABLE measures (
    subject TEXT NOT NULL,
    area TEXT NOT NULL,
    voice TEXT NOT NULL,
    passages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (subject, area, voice)
) WITHOUT ROWID;
CREATE TABLE entries (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    expires_at INTEGER,
    category TEXT,
    tags TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE TABLE cursors (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE "journal" (
    sequence INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    key INTEGER NOT NULL,
    subject TEXT NOT NULL CHECK (subject IN ('record', 'turn', 'session', 'page', 'paragraph')),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT,
    after TEXT
);
CREATE INDEX journal_changes ON journal (key) WHERE key <> sequence;
CREATE TABLE pages (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    updated_at INTEGER NOT NULL,
    content TEXT NOT NULL
);
CREATE TABLE paragraphs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    page TEXT NOT NULL,
    position REAL NOT NULL,
    at INTEGER NOT NULL,
    length INTEGER NOT NULL,
    voice TEXT NOT NULL,
    cues TEXT NOT NULL,
    dates TEXT NOT NULL,
    terms TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE INDEX paragraphs_place ON paragraphs (page, position);
CREATE TABLE tombstones (mark TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX records_category ON records (category, scope, archived_at, expires_at, updated_at, length) WHERE category IS NOT NULL;
CREATE INDEX records_headlines ON records (scope) WHERE parts IS NOT NULL;
CREATE INDEX records_created ON records (created_at);
PRAGMA application_id = 1383490930;
PRAGMA user_version = 8;
