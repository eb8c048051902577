-- Analyses and counters are in a database of their own, which is derived and can be deleted (`derived`). So a save writes
-- neither, and a table has what was said and nothing else. Each row has a checksum of its columns.
--
-- In the journal, a creation has an empty `after` as long as the row has its value. A damaged row is noticed by its
-- checksum.

CREATE TABLE new_records (
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
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    refs TEXT NOT NULL,
    source TEXT NOT NULL,
    archive_reason TEXT NOT NULL,
    metadata TEXT NOT NULL,
    parts TEXT,
    draft INTEGER,
    item_key TEXT,
    resolved_dates TEXT,
    replaced_by TEXT,
    replaces TEXT,
    promoted_from TEXT,
    perhaps_replaced_by TEXT,
    keep_secret INTEGER,
    about TEXT,
    until INTEGER,
    permission INTEGER,
    checksum INTEGER
);
INSERT INTO new_records
SELECT key, id, scope, fingerprint, kind, layer, origin, category, pinned, confidence, importance, created_at, updated_at,
    last_seen_at, seen_count, valid_from, valid_to, expires_at, archived_at, content, tags, refs, source, archive_reason,
    metadata, parts, draft, item_key, resolved_dates, replaced_by, replaces, promoted_from, perhaps_replaced_by,
    keep_secret, about, until, permission, NULL
FROM records ORDER BY key;
DROP TABLE records;
ALTER TABLE new_records RENAME TO records;
CREATE UNIQUE INDEX records_id ON records (id);
CREATE UNIQUE INDEX records_live ON records (fingerprint, scope) WHERE archived_at IS NULL;
CREATE INDEX records_newest ON records (updated_at, archived_at, scope, category, kind, tags);
CREATE INDEX records_category ON records (category, scope, archived_at, expires_at, updated_at) WHERE category IS NOT NULL;
CREATE INDEX records_headlines ON records (scope) WHERE parts IS NOT NULL;
CREATE INDEX records_created ON records (created_at);

CREATE TABLE new_turns (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (key),
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    at INTEGER NOT NULL,
    scope TEXT NOT NULL,
    speaker TEXT NOT NULL,
    content TEXT NOT NULL,
    tool_calls TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    metadata TEXT NOT NULL,
    checksum INTEGER
);
INSERT INTO new_turns
SELECT key, id, session, position, role, at, scope, speaker, content, tool_calls, tool_call_id, metadata, NULL
FROM turns ORDER BY key;
DROP TABLE turns;
ALTER TABLE new_turns RENAME TO turns;
CREATE UNIQUE INDEX turns_id ON turns (id);
CREATE UNIQUE INDEX turns_place ON turns (session, position);

CREATE TABLE new_paragraphs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    page TEXT NOT NULL,
    position REAL NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum INTEGER
);
INSERT INTO new_paragraphs SELECT key, id, page, position, at, source, content, NULL FROM paragraphs ORDER BY key;
DROP TABLE paragraphs;
ALTER TABLE new_paragraphs RENAME TO paragraphs;
CREATE INDEX paragraphs_place ON paragraphs (page, position);

ALTER TABLE sessions ADD COLUMN checksum INTEGER;
ALTER TABLE pages ADD COLUMN checksum INTEGER;
DROP TABLE measures;
