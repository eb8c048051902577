-- Why the tables are as they are. A durable commit costs one fsync and, for every page it touched, a 4 KiB
-- frame in the write-ahead log: about 0.1 ms and 0.015 ms where this was measured. So the design is about
-- touching few pages. A new record among 100,000 touches 7.3: the last leaf of `records`, `journal` and
-- `records_newest` (all three append, 1.2 each with the leaf that fills up), a random leaf of each unique
-- index (1.1 and 1.3), `measure` (1), and the file's header when it grows (0.25). That is 1.5 times what a
-- bare insert into one table with a unique id takes. Rejected:
--
-- * A table of tags: one more page for most commits, in exchange for quicker finding of rare tags. The tags
--   stand in `records_newest` instead, so a filter by any of its columns walks that index alone (7 ms for all
--   of 100,000) and stops at its limit (0.1 ms); counting the tags takes 70 ms instead of 30.
-- * An index each for category, scope, kind, archived: the same.
-- * An index of `journal` by id: a random page for every commit of anything. A thing's first journal row is
--   found by its key, which *is* that row's number; later rows are in `journal_changes`, which a creation
--   does not touch; `gone` remembers the keys of ids that were deleted.
-- * Counters as changes in the journal, added up by whoever asks: saves the page of `measure` (8 % of a
--   commit), and every question for a measure would read the journal's tail.
-- * A creation's journal row without `after`, as `records` has it: fewer bytes, the same pages, and nothing
--   left to notice a damaged record by.
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
    subject TEXT NOT NULL CHECK (subject IN ('record', 'turn', 'session')),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT,
    after TEXT,
    CHECK (before IS NOT NULL OR after IS NOT NULL)
);

CREATE INDEX journal_changes ON journal (key) WHERE key <> sequence;
CREATE TABLE gone (id TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (id, key)) WITHOUT ROWID;

-- What search reads stands before the content, so a long content's overflow pages are not walked.
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
);

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

-- `area` is `=` and the scope, or `*` for all scopes together, so that both are one look-up.
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
