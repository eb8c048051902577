-- The tables of all memories of one database, and the functions that change them. Tables of an earlier version are
-- copied into these (`copying.py`).
--
-- One row of `space` per memory holds the number of its newest journal row. `change_things` locks that row
-- first and holds it until its transaction ends, so the writers of one memory come one after the other,
-- numbers become visible in their order, and no two transactions can wait for one another. Memories do not
-- wait for each other.
--
-- `thing` has the document of every record, turn, session, page and paragraph as the journal has it, and
-- beside it the columns that are filtered or sorted by. A new field of a document needs none.
-- Documents are `json`, not `jsonb`: the text is kept as it was written, and no number changes its form.
--
-- Texts have the collation "C", so that they are sorted as in Python, by code point.

CREATE TABLE reverie.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

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
    body json NOT NULL,
    PRIMARY KEY (space, subject, key)
) PARTITION BY HASH (space);

-- The kind of a thing comes last here. With the kind before the id, a server without statistics took this index for as
-- good as the primary key, and read all things of a kind to find one by its key.
CREATE UNIQUE INDEX thing_id ON reverie.thing (space, id, subject);
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
    operation text COLLATE "C" NOT NULL,
    note text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL,
    before json,
    after json,
    PRIMARY KEY (space, sequence)
) PARTITION BY HASH (space);

CREATE INDEX journal_id ON reverie.journal (space, id, sequence);
-- A past state is found by its time without reading the journal.
CREATE INDEX journal_times ON reverie.journal (space, at, sequence);

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

-- Vectors of passages, so that a text is embedded once for all machines that open its memory.
--
-- A vector is used while the digest is that of the text and scope of its passage. It goes with the passage, and with the
-- content of its journal rows, which only an erasure changes.

CREATE TABLE reverie.vector (
    digest bigint NOT NULL,
    embedder bigint NOT NULL, -- hash of the embedder's fingerprint
    key bigint NOT NULL,
    space integer NOT NULL,
    scale real NOT NULL,      -- of the numbers, which are bytes with a sign
    numbers bytea NOT NULL,
    PRIMARY KEY (space, key, embedder)
) PARTITION BY HASH (space);

-- Background work over all memories: when each is to be looked at, and who works on it. Like `space`, these tables have no
-- row-level security: they hold numbers and times, and no content.

CREATE TABLE reverie.work (
    space integer PRIMARY KEY REFERENCES reverie.space ON DELETE CASCADE,
    due_at timestamptz NOT NULL DEFAULT 'infinity', -- when to look whether anything is due
    claim bigint NOT NULL DEFAULT 0,                -- the number of the last look
    failures integer NOT NULL DEFAULT 0,            -- in a row
    owner text COLLATE "C",                         -- who holds the lease
    token bigint NOT NULL DEFAULT 0,                -- grows whenever the lease changes hands
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

CREATE INDEX work_due ON reverie.work (due_at);

CREATE TABLE reverie.worker (
    id text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    memory text COLLATE "C",                        -- the memory at hand
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['thing', 'journal', 'vector'] LOOP
        FOR number IN 0..31 LOOP
            EXECUTE format('CREATE TABLE reverie.%1$s_%2$s PARTITION OF reverie.%1$s '
                'FOR VALUES WITH (MODULUS 32, REMAINDER %2$s)', place, number);
        END LOOP;
    END LOOP;
    -- A query that names no memory is an error, and one that names another memory sees nothing. Partitions
    -- have policies of their own: those of the parent do not hold for who asks a partition.
    FOR place IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p')
            AND c.relname NOT IN ('space', 'migration', 'work', 'worker')
    LOOP
        EXECUTE format('ALTER TABLE reverie.%I ENABLE ROW LEVEL SECURITY', place);
        EXECUTE format('ALTER TABLE reverie.%I FORCE ROW LEVEL SECURITY', place);
        EXECUTE format('CREATE POLICY one_memory ON reverie.%I '
            'USING (space = current_setting(''reverie.space'')::integer)', place);
    END LOOP;
END $$;

-- -- background work ----------------------------------------------------------------------------------------

CREATE FUNCTION reverie.add_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reverie.work (space) VALUES (NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER add_work AFTER INSERT ON reverie.space FOR EACH ROW EXECUTE FUNCTION reverie.add_work();

-- Takes or renews the lease of a memory, and returns its token; NULL where somebody else holds it.
CREATE FUNCTION reverie.take_lease(of_space integer, of_owner text, lasting interval) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    PERFORM FROM reverie.space WHERE id = of_space FOR UPDATE;
    UPDATE reverie.work SET token = token + (owner IS DISTINCT FROM of_owner)::integer, owner = of_owner,
            expires_at = clock_timestamp() + lasting
        WHERE space = of_space AND (owner = of_owner OR expires_at <= clock_timestamp())
        RETURNING token INTO taken;
    RETURN taken;
END $$;

-- Gives out the memory whose look is due for the longest time, or nothing. The look is due again when `lasting` has
-- passed, should nobody say before how it ended. Memories that are being written are left for the next call.
CREATE FUNCTION reverie.claim_work(lasting interval, of_memory text, OUT of_space integer, OUT name text, OUT number bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH due AS MATERIALIZED (  -- a plan may run a mere subquery once for every row of `work`
        SELECT s.id, s.name FROM reverie.work d JOIN reverie.space s ON s.id = d.space
        WHERE d.due_at <= clock_timestamp() AND d.expires_at <= clock_timestamp()
            AND s.name NOT LIKE '% (being copied)' AND (of_memory IS NULL OR s.name = of_memory)
        ORDER BY d.due_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE reverie.work AS w SET claim = w.claim + 1, due_at = clock_timestamp() + lasting
        FROM due WHERE w.space = due.id RETURNING w.space, due.name, w.claim INTO of_space, name, number;
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

-- The functions that change entries hold the memory's row, so the lease does not change hands meanwhile.
CREATE FUNCTION reverie.refuse_stale_fence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fence bigint := nullif(current_setting('reverie.fence', true), '')::bigint;
BEGIN
    IF fence IS NOT NULL AND NOT EXISTS (
        SELECT FROM reverie.work WHERE space = current_setting('reverie.space')::integer AND token = fence
    ) THEN
        RAISE EXCEPTION 'the lease was taken over' USING ERRCODE = 'RV003';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER refuse_stale_fence BEFORE INSERT OR UPDATE OR DELETE ON reverie.entry
    FOR EACH STATEMENT EXECUTE FUNCTION reverie.refuse_stale_fence();

-- -- changes ------------------------------------------------------------------------------------------------

-- The row of a thing. A document is without what its columns most often hold. It is made part of the statement that asks
-- for it.
CREATE FUNCTION reverie.build_thing(
    of_space integer, of_subject text, of_key bigint, of_id text, body json, of_fingerprint text, tags text,
    of_thread bigint
) RETURNS SETOF reverie.thing LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT of_space, of_subject, of_key, of_id, coalesce(d.scope, ''), coalesce(d.created_at, d.at),
        CASE WHEN is_record THEN coalesce(d.updated_at, d.created_at) END, d.valid_from, d.valid_to, d.expires_at,
        d.archived_at, CASE WHEN is_record THEN coalesce(d.kind, 'fact') ELSE d.role END,
        CASE WHEN is_record THEN coalesce(d.layer, 'semantic') END, CASE WHEN is_record THEN coalesce(d.origin, 'owner') END,
        d.category, ARRAY(SELECT json_array_elements_text(tags::json)),
        CASE WHEN is_record THEN coalesce(d.pinned, 0) = 1 END, CASE WHEN is_record THEN coalesce(d.importance, 0.5) END,
        CASE WHEN is_record THEN coalesce(d.confidence, 0.8) END, of_fingerprint,
        CASE WHEN of_subject = 'paragraph' THEN d.page END, of_thread, d.position, body
    FROM json_to_record(body) AS d (
        scope text, at bigint, created_at bigint, updated_at bigint, valid_from bigint, valid_to bigint,
        expires_at bigint, archived_at bigint, kind text, role text, layer text, origin text, category text,
        pinned integer, importance double precision, confidence double precision, page text, position double precision
    ), (SELECT of_subject = 'record') AS s (is_record)
$$;

-- Makes all changes, or none. A refusal is the SQLSTATE RV001 with a JSON detail that names the reason and the
-- number of the change, never content: details are written to the server's log.
--
-- With `restored_keys` the changes are things that the journal has already, as when a memory is copied: they are
-- inserted under these keys, and nothing is written to the journal.
CREATE FUNCTION reverie.change_things(
    of_space integer, of_token uuid, is_retry boolean, is_erasure boolean, patience text,
    of_actor text, of_operation text, of_note text, of_reference text, of_at bigint, since bigint,
    subjects text[], ids text[], befores text[], afters text[], fingerprints text[], folded_tags text[],
    expected_names text[], expected_values text[], cursor_names text[], cursor_values text[], counter_names text[], counter_values bigint[], marks text[],
    restored_keys bigint[],
    OUT first bigint, OUT keys bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head bigint;
    record_head bigint;
    commit_number bigint;
    fence bigint;
    of_subject text;
    of_id text;
    of_before text;
    of_after json;
    of_key bigint;
    of_thread bigint;
    of_position double precision;
    in_scope text;
    of_fingerprint text;
    stored reverie.thing;
    place_thread bigint;
    place_position double precision;
    touched_threads bigint[] := '{}';
    touched_positions double precision[] := '{}';
    touched_edits integer[] := '{}';
    touched_sides text[] := '{}';
    setting text;
    other text;
BEGIN
    -- Assignments and conditions without a query take a fraction of the time of a statement.
    setting := set_config('reverie.space', of_space::text, true);
    setting := set_config('lock_timeout', patience, true);
    -- Generic plans: planning each statement anew for its partition would take longer than running it.
    setting := set_config('plan_cache_mode', 'force_generic_plan', true);
    IF current_setting('synchronous_commit') = 'off' THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT sequence, record_sequence, commits INTO head, record_head, commit_number
        FROM reverie.space WHERE id = of_space FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this memory has been removed' USING ERRCODE = 'RV002';
    END IF;
    fence := nullif(current_setting('reverie.fence', true), '');
    IF fence IS NOT NULL THEN  -- by itself, because a condition with a query is a statement
        IF NOT EXISTS (SELECT FROM reverie.work WHERE space = of_space AND token = fence) THEN
            RAISE EXCEPTION 'the lease was taken over' USING ERRCODE = 'RV003';
        END IF;
    END IF;
    IF is_retry THEN
        SELECT r.first INTO first FROM reverie.receipt r
            WHERE r.space = of_space AND r.token = of_token ORDER BY r.number DESC LIMIT 1;
        IF FOUND THEN
            SELECT coalesce(array_agg(j.key ORDER BY j.sequence), '{}') INTO keys FROM reverie.journal j
                WHERE j.space = of_space AND j.sequence >= change_things.first
                    AND j.sequence < change_things.first + cardinality(ids);
            RETURN;
        END IF;
    END IF;
    IF record_head > since THEN
        RAISE EXCEPTION 'conflict' USING ERRCODE = 'RV001', DETAIL = json_build_object('reason', 'since', 'sequence',
            (SELECT min(sequence) FROM reverie.journal
                WHERE space = of_space AND sequence > since AND subject = 'record'));
    END IF;
    IF cardinality(expected_names) > 0 THEN
        SELECT u.name INTO other FROM unnest(expected_names, expected_values) AS u (name, value)
            LEFT JOIN reverie.cursor c ON c.space = of_space AND c.name = u.name
            WHERE c.value IS DISTINCT FROM u.value LIMIT 1;
        IF FOUND THEN
            PERFORM reverie.refuse('cursor', 0, other);
        END IF;
    END IF;
    first := head + 1;
    keys := '{}';

    FOR number IN 1..cardinality(ids) LOOP
        of_subject := subjects[number];
        of_id := ids[number];
        of_before := befores[number];
        of_after := afters[number];
        of_key := coalesce(restored_keys[number], head + number);
        stored := NULL;
        IF of_before IS NOT NULL THEN
            SELECT * INTO stored
                FROM reverie.thing t WHERE t.space = of_space AND t.subject = of_subject AND t.id = of_id;
            IF NOT FOUND THEN
                PERFORM reverie.refuse('missing', number);
            ELSIF stored.body::text <> of_before AND stored.body::jsonb <> of_before::jsonb THEN
                PERFORM reverie.refuse('changed', number);
            END IF;
            of_key := stored.key;
            IF stored.thread IS NOT NULL THEN
                touched_threads := touched_threads || stored.thread;
                touched_positions := touched_positions || stored.position;
                touched_edits := touched_edits || number;
                touched_sides := touched_sides || 'before'::text;
            END IF;
        END IF;

        IF of_after IS NULL THEN
            IF of_subject = 'session' AND EXISTS (
                SELECT FROM reverie.thing t WHERE t.space = of_space AND t.thread = of_key
            ) THEN
                PERFORM reverie.refuse('has turns', number);
            END IF;
            DELETE FROM reverie.thing t WHERE t.space = of_space AND t.subject = of_subject AND t.key = of_key;
        ELSE
            in_scope := coalesce(of_after ->> 'scope', '');
            of_fingerprint := CASE WHEN of_after ->> 'archived_at' IS NULL THEN fingerprints[number] END;
            of_thread := NULL;
            of_position := of_after ->> 'position';
            IF of_subject = 'turn' THEN
                SELECT t.key INTO of_thread FROM reverie.thing t
                    WHERE t.space = of_space AND t.subject = 'session' AND t.id = of_after ->> 'session';
                touched_threads := touched_threads || of_thread;
                touched_positions := touched_positions || of_position;
                touched_edits := touched_edits || number;
                touched_sides := touched_sides || 'after'::text;
            END IF;
            IF of_before IS NOT NULL OR of_thread IS NULL AND of_subject = 'turn' THEN
                PERFORM reverie.refuse_duplicate(
                    of_space, number, of_subject, of_id, of_key, in_scope, of_fingerprint, of_thread, of_position
                );
            END IF;
            IF of_before IS NULL THEN
                INSERT INTO reverie.thing SELECT * FROM reverie.build_thing(
                    of_space, of_subject, of_key, of_id, of_after, of_fingerprint, folded_tags[number], of_thread
                ) ON CONFLICT DO NOTHING;
                IF NOT FOUND THEN
                    PERFORM reverie.refuse_duplicate(
                        of_space, number, of_subject, of_id, of_key, in_scope, of_fingerprint, of_thread, of_position
                    );
                    PERFORM reverie.refuse('exists', number);
                END IF;
            ELSE
                UPDATE reverie.thing t SET (
                    scope, at, updated_at, valid_from, valid_to, expires_at, archived_at, kind, layer, origin,
                    category, tags, pinned, importance, confidence, fingerprint, page, thread, position, body
                ) = (
                    n.scope, n.at, n.updated_at, n.valid_from, n.valid_to, n.expires_at, n.archived_at, n.kind, n.layer,
                    n.origin, n.category, n.tags, n.pinned, n.importance, n.confidence, n.fingerprint, n.page, n.thread,
                    n.position, n.body
                ) FROM reverie.build_thing(
                    of_space, of_subject, of_key, of_id, of_after, of_fingerprint, folded_tags[number], of_thread
                ) AS n WHERE t.space = of_space AND t.subject = of_subject AND t.key = of_key;
            END IF;
        END IF;
        CONTINUE WHEN restored_keys IS NOT NULL;
        INSERT INTO reverie.journal VALUES (
            of_space, head + number, first, of_key, of_subject, of_id, of_at, of_actor, of_operation, of_note, of_reference,
            stored.body, of_after
        );
        keys := keys || of_key;
        IF of_subject = 'record' THEN
            record_head := head + number;
        END IF;
    END LOOP;

    -- Positions were without a gap before. One came about only if a turn that came has none before it, or if a
    -- turn that went has one after it.
    FOR index IN 1..CASE WHEN restored_keys IS NULL THEN cardinality(touched_threads) ELSE 0 END LOOP
        place_thread := touched_threads[index];
        place_position := touched_positions[index];
        IF EXISTS (
            SELECT FROM reverie.thing t
            WHERE t.space = of_space AND t.thread = place_thread AND t.position = place_position
        ) THEN
            CONTINUE WHEN place_position = 0 OR EXISTS (
                SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place_thread AND t.position = place_position - 1
            );
        ELSE
            CONTINUE WHEN NOT EXISTS (
                SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place_thread AND t.position > place_position
            );
        END IF;
        RAISE EXCEPTION 'conflict' USING ERRCODE = 'RV001', DETAIL = json_build_object(
            'reason', 'gap', 'change', touched_edits[index], 'side', touched_sides[index], 'position',
            (SELECT min(n) FROM generate_series(0, (SELECT count(*) FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place_thread)) AS n
            WHERE NOT EXISTS (SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place_thread AND t.position = n)));
    END LOOP;

    IF is_erasure THEN
        UPDATE reverie.journal j SET before = NULL, after = CASE WHEN j.sequence = e.newest THEN j.after END,
            note = '', reference = '', id = CASE WHEN e.subject IN ('session', 'page') AND NOT EXISTS (
                SELECT FROM reverie.thing t WHERE t.space = of_space AND t.subject = e.subject AND t.id = e.id
            ) THEN '' ELSE j.id END
        FROM (
            SELECT u.subject, u.id, head + max(u.number) AS newest
            FROM unnest(subjects, ids) WITH ORDINALITY AS u (subject, id, number) GROUP BY u.subject, u.id
        ) AS e
        WHERE j.space = of_space AND j.id = e.id AND j.subject = e.subject;
        INSERT INTO reverie.tombstone SELECT of_space, m FROM unnest(marks) AS m ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(cursor_names) > 0 THEN
        DELETE FROM reverie.cursor c USING unnest(cursor_names, cursor_values) AS u (name, value)
            WHERE c.space = of_space AND c.name = u.name AND u.value IS NULL;
        INSERT INTO reverie.cursor SELECT of_space, u.name, u.value
            FROM unnest(cursor_names, cursor_values) AS u (name, value) WHERE u.value IS NOT NULL
            ON CONFLICT (space, name) DO UPDATE SET value = excluded.value;
    END IF;
    IF cardinality(counter_names) > 0 THEN
        INSERT INTO reverie.counter AS c SELECT of_space, u.name, u.value
            FROM unnest(counter_names, counter_values) AS u (name, value)
            ON CONFLICT (space, name) DO UPDATE SET value = c.value + excluded.value;
    END IF;

    IF restored_keys IS NOT NULL THEN
        RETURN;
    END IF;
    IF cardinality(ids) > 0 THEN
        UPDATE reverie.work SET due_at = clock_timestamp()
            WHERE space = of_space AND due_at > clock_timestamp() AND failures = 0;
    END IF;
    UPDATE reverie.space SET sequence = head + cardinality(ids), commits = commit_number + 1,
        record_sequence = record_head
        WHERE id = of_space;
    INSERT INTO reverie.receipt (space, number, token, first) VALUES (of_space, commit_number + 1, of_token, first);
    IF commit_number % 1000 = 999 THEN
        DELETE FROM reverie.receipt WHERE space = of_space AND made_at < clock_timestamp() - interval '1 hour';
    END IF;
END $$;

-- Refuses a thing that has the name, the words or the place of another, or the session that is none.
CREATE FUNCTION reverie.refuse_duplicate(
    of_space integer, change bigint, of_subject text, of_id text, of_key bigint, of_scope text, of_fingerprint text,
    of_thread bigint, of_position double precision
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    other text;
BEGIN
    IF EXISTS (
        SELECT FROM reverie.thing t
            WHERE t.space = of_space AND t.subject = of_subject AND t.id = of_id AND t.key <> of_key
    ) THEN
        PERFORM reverie.refuse('exists', change);
    END IF;
    SELECT t.id INTO other FROM reverie.thing t
        WHERE t.space = of_space AND t.scope = of_scope AND t.fingerprint = of_fingerprint AND t.key <> of_key;
    IF FOUND THEN
        PERFORM reverie.refuse('same words', change, other);
    ELSIF of_subject = 'turn' AND of_thread IS NULL THEN
        PERFORM reverie.refuse('no session', change);
    ELSIF EXISTS (
        SELECT FROM reverie.thing t
            WHERE t.space = of_space AND t.thread = of_thread AND t.position = of_position AND t.key <> of_key
    ) THEN
        PERFORM reverie.refuse('place taken', change);
    END IF;
END $$;

-- -- vectors ------------------------------------------------------------------------------------------------

-- Keeps the vectors of things that are there, and have not changed since the texts were read. No commit is under way
-- meanwhile, so none can erase a text between the look and the insert.
CREATE FUNCTION reverie.keep_vectors(
    of_space integer, patience text, of_embedder bigint, read_at bigint, of_keys bigint[], digests bigint[],
    scales double precision[], all_numbers bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    kept bigint;
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    PERFORM FROM reverie.space WHERE id = of_space FOR SHARE;
    INSERT INTO reverie.vector (digest, embedder, key, space, scale, numbers)
        SELECT g.digest, of_embedder, g.key, of_space, g.scale, g.numbers
        FROM unnest(of_keys, digests, scales, all_numbers) AS g (key, digest, scale, numbers)
        WHERE EXISTS (
            SELECT FROM reverie.thing t
            WHERE t.space = of_space AND t.subject IN ('record', 'turn', 'paragraph') AND t.key = g.key
                AND t.archived_at IS NULL
        ) AND NOT EXISTS (
            SELECT FROM reverie.journal j WHERE j.space = of_space AND j.sequence > read_at AND j.key = g.key
        )
        ON CONFLICT (space, key, embedder) DO UPDATE
            SET digest = excluded.digest, scale = excluded.scale, numbers = excluded.numbers;
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END $$;

-- Removes the vectors of all embedders but one.
CREATE FUNCTION reverie.drop_vectors(of_space integer, patience text, but bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    dropped bigint;
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    DELETE FROM reverie.vector WHERE space = of_space AND embedder <> but;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END $$;

CREATE FUNCTION reverie.forget_vectors() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reverie.vector WHERE space = OLD.space AND key = OLD.key;
    RETURN NULL;
END $$;

CREATE TRIGGER forget_vectors AFTER DELETE ON reverie.thing
    FOR EACH ROW EXECUTE FUNCTION reverie.forget_vectors();
CREATE TRIGGER forget_vectors AFTER UPDATE ON reverie.journal
    FOR EACH ROW EXECUTE FUNCTION reverie.forget_vectors();
