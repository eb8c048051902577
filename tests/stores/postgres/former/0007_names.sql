-- The kind of a thing comes last in the index of ids. With the kind before the id, a server without statistics took that
-- index for as good as the primary key, and read all things of a kind to find one by its key.
DROP INDEX reverie.thing_id;
CREATE UNIQUE INDEX thing_id ON reverie.thing (space, id, subject);
