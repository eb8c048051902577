-- Why `journal` is copied: SQLite cannot change the CHECK of a table, and both of them have to. Its rows may
-- now lose `before` and `after` (what was forgotten), and name two more subjects. A save touches no more
-- pages than before: no table or index was added that it writes to.
--
-- * Paragraphs are found by their log and place; searched ones are those of one log, so search needs no
--   index of its own. Those of other logs are not analysed, and their columns of the analysis are empty.
-- * Rejected for paragraphs: one text for a log, as a page has it. Adding a line to it would write all of it
--   again, twice, for the journal keeps every version.

CREATE TABLE journal_of_all (
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

INSERT INTO journal_of_all
SELECT sequence, batch, key, subject, at, actor, reason, before, after FROM journal ORDER BY sequence;
DROP TABLE journal;
ALTER TABLE journal_of_all RENAME TO journal;
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
