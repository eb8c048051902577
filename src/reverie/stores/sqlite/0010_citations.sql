-- Which value names the id of another in any version: an erasure finds by it what was made from the erased. Most saves
-- name nothing, and touch no page of it. Rows stay until the value that cites is erased.
CREATE TABLE citations (cited TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (cited, key)) WITHOUT ROWID;
CREATE INDEX citations_key ON citations (key);
