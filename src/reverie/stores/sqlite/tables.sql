-- Why the tables are as they are. A durable commit costs one fsync and, for every page it touched, a 4 KiB
-- frame in the write-ahead log: about 0.1 ms and 0.015 ms where this was measured. So the design is about
-- touching few pages. A new record among 100,000 touches 7.3: the last leaf of `records`, `journal` and
-- `records_newest` (all three append, 1.2 each with the leaf that fills up), a random leaf of each unique
-- index (1.1 and 1.3), and the file's header when it grows (0.25). That is 1.5 times what a
-- bare insert into one table with a unique id takes. Rejected:
--
-- * A table of tags: one more page for most commits, in exchange for quicker finding of rare tags. The tags
--   stand in `records_newest` instead, so a filter by any of its columns walks that index alone (7 ms for all
--   of 100,000) and stops at its limit (0.1 ms); counting the tags takes 70 ms instead of 30.
-- * An index each for scope, kind, archived: the same.
-- * An index of `journal` by time: the last entry before a time is found from the end, and counts by hour are seldom asked.
-- * An index of `journal` by id: a random page for every commit of anything. A thing's first journal row is
--   found by its key, which *is* that row's number; later rows are in `journal_changes`, which a creation
--   does not touch; `gone` remembers the keys of ids that were deleted.
-- * AUTOINCREMENT: writes `sqlite_sequence` in every commit. Journal rows are never deleted, so keys taken
--   from the journal are unique for ever without it.
-- * Pages of 8 KiB: 6.5 frames instead of 7.3, and no faster, because the bytes double.
-- * `synchronous=NORMAL`: a third of the time, and acknowledged commits are lost with the power.
-- * WITHOUT ROWID for records or turns: rows are wide, and an index b-tree spills what is over a quarter of
--   a page to overflow pages; search reads by key, so the key should be where the row is. (Neighbours of a
--   turn would come in 1.4 ms rather than 1.8 for 100 times 9.)
-- * STRICT tables: need SQLite 3.37, and RHEL 9 has 3.34. What is read is checked instead.

CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    key INTEGER NOT NULL,
    subject TEXT CHECK (subject IN ('record', 'turn', 'session', 'page', 'paragraph')),
    at INTEGER NOT NULL,
    actor TEXT,
    note TEXT NOT NULL,
    before TEXT,
    after TEXT, -- empty for a creation as long as its row has the value
    operation TEXT,
    reference TEXT NOT NULL DEFAULT ''
);
-- Most changes are saves of records by the owner.
CREATE VIEW changes AS SELECT sequence, batch, key, coalesce(subject, 'record') AS subject, at,
    coalesce(actor, 'owner') AS actor, note, before, after, coalesce(operation, 'save') AS operation, reference
    FROM journal;

CREATE INDEX journal_changes ON journal (key) WHERE key <> sequence;
CREATE TABLE gone (id TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (id, key)) WITHOUT ROWID;
-- Which value names the id of another in any version: an erasure finds by it what was made from the erased. Most saves
-- name nothing, and touch no page of it. Rows stay until the value that cites is erased.
CREATE TABLE citations (cited TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (cited, key)) WITHOUT ROWID;
CREATE INDEX citations_key ON citations (key);

-- Columns that may be NULL for what they most often hold: see `codec.TableCodec.shorten`. Rejected: scopes and categories
-- as numbers of names. A lost page of names would take the scopes of all records.
CREATE TABLE records (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    fingerprint BLOB NOT NULL, -- of the text in its scope
    kind TEXT,
    layer TEXT,
    origin TEXT,
    category TEXT,
    pinned INTEGER NOT NULL,
    confidence REAL,
    importance REAL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_seen_at INTEGER,
    seen_count INTEGER NOT NULL,
    valid_from INTEGER,
    valid_to INTEGER,
    expires_at INTEGER,
    archived_at INTEGER,
    content TEXT NOT NULL,
    tags TEXT,
    refs TEXT,
    source TEXT NOT NULL,
    archive_reason TEXT NOT NULL,
    metadata TEXT,
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
    checksum INTEGER -- of the columns, as in every table of things
);

CREATE UNIQUE INDEX records_id ON records (id);
CREATE UNIQUE INDEX records_live ON records (fingerprint) WHERE archived_at IS NULL;
CREATE INDEX records_newest ON records (updated_at, archived_at, scope, expires_at, kind, tags);
-- Lists and counts of a category are read from this index alone.
CREATE INDEX records_category ON records (category, scope, archived_at, expires_at, updated_at) WHERE category IS NOT NULL;
-- Headlines are few: their index is not touched when another record is written.
CREATE INDEX records_headlines ON records (scope) WHERE parts IS NOT NULL;
-- The newest of a hundred thousand are listed without sorting all.
CREATE INDEX records_created ON records (created_at);

CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL,
    scope TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    summary TEXT NOT NULL,
    metadata TEXT NOT NULL,
    checksum INTEGER
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
    content TEXT NOT NULL,
    tool_calls TEXT,
    tool_call_id TEXT NOT NULL,
    metadata TEXT,
    checksum INTEGER
);

CREATE UNIQUE INDEX turns_id ON turns (id);
CREATE UNIQUE INDEX turns_place ON turns (session, position);

CREATE TABLE pages (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    updated_at INTEGER NOT NULL,
    content TEXT NOT NULL,
    checksum INTEGER
);

-- Rejected: one text for a log, as a page has it. Adding a line to it would write all of it again, twice, for the journal
-- keeps every version.
CREATE TABLE paragraphs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    page TEXT NOT NULL,
    position REAL NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum INTEGER
);

CREATE INDEX paragraphs_place ON paragraphs (page, position);

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
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tombstones (mark TEXT PRIMARY KEY) WITHOUT ROWID;
