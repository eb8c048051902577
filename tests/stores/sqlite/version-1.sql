-- A file of version 1 with something of everything in it.

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
INSERT INTO "cursors" VALUES('seen','1');
INSERT INTO "entries" VALUES('agent','note',1772366400000000,NULL,NULL,'["t"]','data of note');
INSERT INTO "gone" VALUES('000000000003',3);
INSERT INTO "journal" VALUES(1,1,1,'record',1772366400000000,'owner','said so',NULL,'{"id":"000000000001","scope":"user:a","kind":"fact","layer":"semantic","origin":"owner","category":"a/b","pinned":0,"confidence":0.8,"importance":0.3333333333333333,"created_at":1772366400000000,"updated_at":1772366400000000,"last_seen_at":1772366400000000,"seen_count":1,"content":"Grüße, 東京 — it’s \"quoted\"","source":"","archive_reason":"","tags":["x","y"],"refs":[],"metadata":{"k":"v"}}');
INSERT INTO "journal" VALUES(2,1,2,'record',1772366400000000,'owner','said so',NULL,'{"id":"000000000002","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":0,"confidence":0.8,"importance":0.5,"created_at":1772366401000000,"updated_at":1772366401000000,"last_seen_at":1772366401000000,"seen_count":1,"content":"Was it the deploy?","source":"","archive_reason":"","tags":[],"refs":[],"metadata":{}}');
INSERT INTO "journal" VALUES(3,1,3,'record',1772366400000000,'owner','said so',NULL,'{"id":"000000000003","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":0,"confidence":0.8,"importance":0.5,"created_at":1772366402000000,"updated_at":1772366402000000,"last_seen_at":1772366402000000,"seen_count":1,"content":"Not for long","source":"","archive_reason":"","tags":[],"refs":[],"metadata":{}}');
INSERT INTO "journal" VALUES(4,4,4,'session',1772366401000000,'agent','',NULL,'{"id":"chat:1","created_at":1772366400000000,"status":"active","scope":"","window_start":0,"summary":"So far","metadata":{}}');
INSERT INTO "journal" VALUES(5,4,5,'turn',1772366401000000,'agent','',NULL,'{"id":"ff0d00000000","session":"chat:1","position":0,"role":"user","at":1772366400000000,"scope":"","speaker":"","content":"Words of turn 0","tool_call_id":"","tool_calls":[],"metadata":{}}');
INSERT INTO "journal" VALUES(6,4,6,'turn',1772366401000000,'agent','',NULL,'{"id":"ff0d00000001","session":"chat:1","position":1,"role":"assistant","at":1772366401000000,"scope":"","speaker":"","content":"","tool_call_id":"","tool_calls":[["c1","read","{\"path\": \"a\"}"]],"metadata":{}}');
INSERT INTO "journal" VALUES(7,7,2,'record',1772366402000000,'dream','tidy','{"id":"000000000002","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":0,"confidence":0.8,"importance":0.5,"created_at":1772366401000000,"updated_at":1772366401000000,"last_seen_at":1772366401000000,"seen_count":1,"content":"Was it the deploy?","source":"","archive_reason":"","tags":[],"refs":[],"metadata":{}}','{"id":"000000000002","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":1,"confidence":0.8,"importance":0.5,"created_at":1772366401000000,"updated_at":1772366401000000,"last_seen_at":1772366401000000,"seen_count":2,"content":"Was it the deploy?","source":"","archive_reason":"","tags":[],"refs":[],"metadata":{}}');
INSERT INTO "journal" VALUES(8,8,3,'record',1772366403000000,'owner','','{"id":"000000000003","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":0,"confidence":0.8,"importance":0.5,"created_at":1772366402000000,"updated_at":1772366402000000,"last_seen_at":1772366402000000,"seen_count":1,"content":"Not for long","source":"","archive_reason":"","tags":[],"refs":[],"metadata":{}}',NULL);
INSERT INTO "journal" VALUES(9,9,9,'record',1772366404000000,'owner','',NULL,'{"id":"000000000003","scope":"","kind":"fact","layer":"semantic","origin":"owner","pinned":0,"confidence":0.8,"importance":0.5,"created_at":1772366402000000,"updated_at":1772366402000000,"last_seen_at":1772366402000000,"seen_count":1,"archived_at":1772366404000000,"content":"Not for long","source":"","archive_reason":"old","tags":[],"refs":[],"metadata":{}}');
INSERT INTO "measures" VALUES('record','*','',2,13);
INSERT INTO "measures" VALUES('record','=','',1,4);
INSERT INTO "measures" VALUES('record','=user:a','',1,9);
INSERT INTO "measures" VALUES('turn','*','assistant',1,1);
INSERT INTO "measures" VALUES('turn','*','user',1,4);
INSERT INTO "measures" VALUES('turn','=','assistant',1,1);
INSERT INTO "measures" VALUES('turn','=','user',1,4);
INSERT INTO "records" VALUES(1,'000000000001','user:a','2d50f4a5b7b26d1cd6a202a3','fact','semantic','owner','a/b',0,0.8,3.33333333333333314829e-01,1772366400000000,1772366400000000,1772366400000000,1,NULL,NULL,NULL,NULL,9,'','','',' grüße,  東京  —  it’s  "quoted"  x  y  a  b ','Grüße, 東京 — it’s "quoted"','["x","y"]','[]','','','{"k":"v"}');
INSERT INTO "records" VALUES(2,'000000000002','','7cbc286a049f9a2a614bcade','fact','semantic','owner',NULL,1,0.8,0.5,1772366401000000,1772366401000000,1772366401000000,2,NULL,NULL,NULL,NULL,4,'','asks','',' was  it  the  deploy? ','Was it the deploy?','[]','[]','','','{}');
INSERT INTO "records" VALUES(9,'000000000003','','f3c2c3754b147474f143a8e7','fact','semantic','owner',NULL,0,0.8,0.5,1772366402000000,1772366402000000,1772366402000000,1,NULL,NULL,NULL,1772366404000000,3,'','','',' not  for  long ','Not for long','[]','[]','','old','{}');
INSERT INTO "sessions" VALUES(4,'chat:1',1772366400000000,'active','',0,'So far','{}');
INSERT INTO "turns" VALUES(5,'ff0d00000000',4,0,'user',1772366400000000,'','',4,'user','',' @2026 ',' words  of  turn  0 ','Words of turn 0','[]','','{}');
INSERT INTO "turns" VALUES(6,'ff0d00000001',4,1,'assistant',1772366401000000,'','',1,'assistant','',' @2026 ',' read ','','[["c1","read","{\"path\": \"a\"}"]]','','{}');
PRAGMA application_id = 1383490930;
PRAGMA user_version = 1;
