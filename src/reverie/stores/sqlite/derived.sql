CREATE TABLE IF NOT EXISTS passage (
    key INTEGER PRIMARY KEY, terms TEXT NOT NULL, length INTEGER NOT NULL, thread INTEGER, position INTEGER NOT NULL,
    voice TEXT NOT NULL, at REAL NOT NULL, cues TEXT NOT NULL, dates TEXT NOT NULL, importance REAL NOT NULL,
    confidence REAL NOT NULL, kind TEXT NOT NULL, pinned INTEGER NOT NULL, expires_at REAL,
    subject INTEGER NOT NULL, scope TEXT NOT NULL, category TEXT, copy BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS passage_place ON passage (thread, position) WHERE thread IS NOT NULL;
CREATE INDEX IF NOT EXISTS passage_category ON passage (category, scope, length) WHERE category IS NOT NULL;
CREATE TABLE IF NOT EXISTS measure (
    subject TEXT NOT NULL, area TEXT NOT NULL, voice TEXT NOT NULL, passages INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (subject, area, voice)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS followed (sequence INTEGER NOT NULL, mark TEXT NOT NULL);
