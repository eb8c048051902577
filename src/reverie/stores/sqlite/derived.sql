-- Scopes and categories are numbers here, since each is in many rows.
CREATE TABLE IF NOT EXISTS name (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, words TEXT NOT NULL);
-- Importance, confidence and kind are NULL for the usual .5, .8 and fact. Terms that end without a space go on with the
-- words of the category.
CREATE TABLE IF NOT EXISTS passage (
    key INTEGER PRIMARY KEY, terms TEXT NOT NULL, length INTEGER NOT NULL, thread INTEGER, position INTEGER NOT NULL,
    voice TEXT NOT NULL, at REAL NOT NULL, cues TEXT NOT NULL, dates TEXT NOT NULL, importance REAL, confidence REAL,
    kind TEXT, pinned INTEGER NOT NULL, expires_at REAL, subject INTEGER NOT NULL, scope INTEGER NOT NULL,
    category INTEGER, copy BLOB NOT NULL
);
CREATE VIEW IF NOT EXISTS whole AS SELECT key,
    CASE WHEN substr(terms, -1) IN (' ', '') THEN terms ELSE terms || coalesce((SELECT words FROM name
    WHERE number = category), '') END
    AS terms, length, thread, position, voice, at, cues, dates, coalesce(importance, 0.5) AS importance,
    coalesce(confidence, 0.8) AS confidence, coalesce(kind, 'fact') AS kind, pinned, expires_at, subject, copy,
    (SELECT text FROM name WHERE number = scope) AS scope, (SELECT text FROM name WHERE number = category) AS category
    FROM passage;
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
