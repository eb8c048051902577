-- The tables of all memories of one database. The function that changes them is in `0005_commit.sql`.
--
-- One row of `space` per memory holds the number of its newest journal row. `change_things` locks that row
-- first and holds it until its transaction ends, so the writers of one memory come one after the other,
-- numbers become visible in their order, and no two transactions can wait for one another. Memories do not
-- wait for each other.
--
-- `thing` has the document of every record, turn, session, page and paragraph as the journal has it, and
-- beside it the columns that are filtered, sorted or searched by. A new field of a document needs none.
-- Documents are `json`, not `jsonb`: the text is kept as it was written, and no number changes its form.
--
-- Texts have the collation "C", so that they are sorted as in Python, by code point.

CREATE TABLE reverie.space (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    identity uuid NOT NULL DEFAULT gen_random_uuid(), -- unlike any memory in any database
    sequence bigint NOT NULL DEFAULT 0,
    record_sequence bigint NOT NULL DEFAULT 0,
    commits bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE TABLE reverie.thing (
    space integer NOT NULL,
    subject text COLLATE "C" NOT NULL,
    key bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    at bigint,              -- when it was created or said, in microseconds since 1970
    updated_at bigint,
    valid_from bigint,
    valid_to bigint,
    expires_at bigint,
    archived_at bigint,
    kind text COLLATE "C",  -- of a record; of a turn its role
    layer text COLLATE "C",
    origin text COLLATE "C",
    category text COLLATE "C",
    tags text[] COLLATE "C", -- folded, for comparison
    pinned boolean,
    importance double precision,
    confidence double precision,
    fingerprint text COLLATE "C", -- of a live record
    page text COLLATE "C",  -- of a paragraph
    thread bigint,          -- the key of a turn's session
    position double precision,
    searched boolean NOT NULL,
    length integer NOT NULL,
    voice text COLLATE "C" NOT NULL,
    cues text COLLATE "C" NOT NULL,
    dates text COLLATE "C" NOT NULL,
    terms text COLLATE "C" NOT NULL,
    body json NOT NULL,
    PRIMARY KEY (space, subject, key)
) PARTITION BY HASH (space);

CREATE UNIQUE INDEX thing_id ON reverie.thing (space, subject, id);
CREATE UNIQUE INDEX thing_fingerprint ON reverie.thing (space, scope, fingerprint) WHERE fingerprint IS NOT NULL;
CREATE UNIQUE INDEX thing_place ON reverie.thing (space, thread, position) WHERE thread IS NOT NULL;
CREATE INDEX thing_page ON reverie.thing (space, page, position, key) WHERE page IS NOT NULL;
CREATE INDEX thing_updated ON reverie.thing (space, updated_at, key) WHERE updated_at IS NOT NULL;
CREATE INDEX thing_said ON reverie.thing (space, at, key) WHERE thread IS NOT NULL;
CREATE INDEX thing_category ON reverie.thing (space, category) WHERE category IS NOT NULL;
CREATE INDEX thing_headlines ON reverie.thing (space) WHERE body ->> 'parts' IS NOT NULL;

CREATE TABLE reverie.journal (
    space integer NOT NULL,
    sequence bigint NOT NULL,
    batch bigint NOT NULL,
    key bigint NOT NULL,
    subject text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, -- empty where it was erased
    at bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    before json,
    after json,
    PRIMARY KEY (space, sequence)
) PARTITION BY HASH (space);

CREATE INDEX journal_id ON reverie.journal (space, id, sequence);

-- `area` is `=` and the scope, or `*` for all scopes together.
CREATE TABLE reverie.measure (
    space integer NOT NULL,
    subject text COLLATE "C" NOT NULL,
    area text COLLATE "C" NOT NULL,
    voice text COLLATE "C" NOT NULL,
    passages bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (space, area, subject, voice)
) WITH (fillfactor = 50);

CREATE TABLE reverie.entry (
    space integer NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    stored_at bigint NOT NULL,
    expires_at bigint,
    category text COLLATE "C",
    tags text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, namespace, key)
);

CREATE TABLE reverie.cursor (
    space integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, name)
);

CREATE TABLE reverie.counter (
    space integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY (space, name)
);

CREATE TABLE reverie.tombstone (
    space integer NOT NULL,
    mark text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, mark)
);

-- The commits of the last hour by the token of their caller, for one that lost its connection meanwhile.
CREATE TABLE reverie.receipt (
    space integer NOT NULL,
    number bigint NOT NULL,
    token uuid NOT NULL,
    first bigint NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (space, number)
);

DO $$
DECLARE
    place text;
BEGIN
    FOR number IN 0..31 LOOP
        EXECUTE format('CREATE TABLE reverie.thing_%s PARTITION OF reverie.thing '
            'FOR VALUES WITH (MODULUS 32, REMAINDER %s)', number, number);
        EXECUTE format('CREATE TABLE reverie.journal_%s PARTITION OF reverie.journal '
            'FOR VALUES WITH (MODULUS 32, REMAINDER %s)', number, number);
    END LOOP;
    -- A query that names no memory is an error, and one that names another memory sees nothing. Partitions
    -- have policies of their own: those of the parent do not hold for who asks a partition.
    FOR place IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p')
            AND c.relname NOT IN ('space', 'migration')
    LOOP
        EXECUTE format('ALTER TABLE reverie.%I ENABLE ROW LEVEL SECURITY', place);
        EXECUTE format('ALTER TABLE reverie.%I FORCE ROW LEVEL SECURITY', place);
        EXECUTE format('CREATE POLICY one_memory ON reverie.%I '
            'USING (space = current_setting(''reverie.space'')::integer)', place);
    END LOOP;
END $$;

CREATE FUNCTION reverie.refuse(reason text, change bigint, other text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'conflict' USING ERRCODE = 'RV001',
        DETAIL = json_build_object('reason', reason, 'change', change, 'other', other);
END $$;

-- Locks the memory's row, so that the entries of a namespace are counted and put as one.
CREATE FUNCTION reverie.put_entry(
    of_space integer, patience text, of_namespace text, of_key text, of_stored_at bigint, of_expires_at bigint,
    of_category text, of_tags text, of_data text, capacity integer, of_now bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    others bigint;
    is_there boolean;
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    PERFORM FROM reverie.space WHERE id = of_space FOR UPDATE;
    SELECT count(*) FILTER (WHERE key <> of_key), count(*) FILTER (WHERE key = of_key) > 0 INTO others, is_there
        FROM reverie.entry
        WHERE space = of_space AND namespace = of_namespace AND (expires_at IS NULL OR expires_at > of_now);
    IF others >= capacity AND NOT is_there THEN
        RETURN false;
    END IF;
    DELETE FROM reverie.entry WHERE space = of_space AND namespace = of_namespace AND expires_at <= of_now;
    INSERT INTO reverie.entry VALUES (of_space, of_namespace, of_key, of_stored_at, of_expires_at, of_category,
        of_tags, of_data)
        ON CONFLICT (space, namespace, key) DO UPDATE SET stored_at = excluded.stored_at,
            expires_at = excluded.expires_at, category = excluded.category, tags = excluded.tags,
            data = excluded.data;
    RETURN true;
END $$;

CREATE FUNCTION reverie.drop_entries(of_space integer, patience text, of_namespace text, of_keys text[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    dropped bigint;
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    PERFORM FROM reverie.space WHERE id = of_space FOR UPDATE;
    DELETE FROM reverie.entry WHERE space = of_space AND namespace = of_namespace
        AND (of_keys IS NULL OR key = ANY (of_keys));
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END $$;
