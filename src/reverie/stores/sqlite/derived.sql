-- Scopes and categories are numbers here, since each is in many rows.
CREATE TABLE IF NOT EXISTS name (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
-- Importance and confidence are NULL for the usual .5 and .8.
CREATE TABLE IF NOT EXISTS passage (
    key INTEGER PRIMARY KEY, terms TEXT NOT NULL, length INTEGER NOT NULL, thread INTEGER, position INTEGER NOT NULL,
    voice TEXT NOT NULL, at REAL NOT NULL, cues TEXT NOT NULL, dates TEXT NOT NULL, importance REAL, confidence REAL,
    kind TEXT NOT NULL, pinned INTEGER NOT NULL, expires_at REAL, subject INTEGER NOT NULL, scope INTEGER NOT NULL,
    category INTEGER, copy BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS passage_place ON passage (thread, position) WHERE thread IS NOT NULL;
-- Counters of categories, and below of scopes. Rejected: an index of passages by category. It is written in random order.
CREATE TABLE IF NOT EXISTS category (
    name INTEGER NOT NULL, scope INTEGER NOT NULL, passages INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (name, scope)
) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS counted AS SELECT passages, tokens, c.text AS category, s.text AS scope
    FROM category JOIN name AS c ON c.number = name JOIN name AS s ON s.number = scope;
CREATE TABLE IF NOT EXISTS measure (
    subject TEXT NOT NULL, area TEXT NOT NULL, voice TEXT NOT NULL, passages INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (subject, area, voice)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS followed (sequence INTEGER NOT NULL, mark TEXT NOT NULL);
