-- The tables of all memories of one database, and the function that changes them.
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

-- Makes all changes, or none. A refusal is the SQLSTATE RV001 with a JSON detail that names the reason and the
-- number of the change, never content: details are written to the server's log.
--
-- With `restored_keys` the changes are things that the journal has already, as when a memory is copied: they are
-- inserted under these keys, and nothing is written to the journal.
CREATE FUNCTION reverie.change_things(
    of_space integer, of_token uuid, is_retry boolean, is_erasure boolean, patience text,
    of_actor text, of_reason text, of_at bigint, since bigint,
    subjects text[], ids text[], befores text[], afters text[], fingerprints text[], folded_tags text[],
    lengths integer[], voices text[], all_cues text[], all_dates text[], all_terms text[],
    cursor_names text[], cursor_values text[], counter_names text[], counter_values bigint[], marks text[],
    restored_keys bigint[],
    OUT first bigint, OUT keys bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    head bigint;
    record_head bigint;
    commit_number bigint;
    edit record;
    stored record;
    made record;
    of_key bigint;
    of_thread bigint;
    other text;
    in_scope text;
    is_searched boolean;
    place record;
    touched_threads bigint[] := '{}';
    touched_positions double precision[] := '{}';
    touched_edits integer[] := '{}';
    touched_sides text[] := '{}';
    counted_subjects text[] := '{}';
    counted_scopes text[] := '{}';
    counted_voices text[] := '{}';
    counted_passages integer[] := '{}';
    counted_tokens integer[] := '{}';
BEGIN
    -- Generic plans: planning each statement anew for its partition would take longer than running it.
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true),
        set_config('plan_cache_mode', 'force_generic_plan', true);
    IF current_setting('synchronous_commit') = 'off' THEN
        SET LOCAL synchronous_commit = on;
    END IF;
    SELECT sequence, record_sequence, commits INTO head, record_head, commit_number
        FROM reverie.space WHERE id = of_space FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this memory has been removed' USING ERRCODE = 'RV002';
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
    first := head + 1;
    keys := '{}';

    FOR edit IN
        SELECT * FROM unnest(subjects, ids, befores, afters, fingerprints, folded_tags, lengths, voices, all_cues,
            all_dates, all_terms) WITH ORDINALITY
            AS e (subject, id, before, after, fingerprint, tags, length, voice, cues, dates, terms, number)
    LOOP
        SELECT t.key, t.scope, t.thread, t.position, t.searched, t.length, t.voice, t.body INTO stored
            FROM reverie.thing t WHERE t.space = of_space AND t.subject = edit.subject AND t.id = edit.id;
        IF edit.before IS NULL THEN
            IF FOUND THEN
                PERFORM reverie.refuse('exists', edit.number);
            END IF;
            of_key := coalesce(restored_keys[edit.number], head + edit.number);
        ELSE
            IF NOT FOUND THEN
                PERFORM reverie.refuse('missing', edit.number);
            ELSIF stored.body::text <> edit.before AND stored.body::jsonb <> edit.before::jsonb THEN
                PERFORM reverie.refuse('changed', edit.number);
            END IF;
            of_key := stored.key;
            IF stored.thread IS NOT NULL THEN
                touched_threads := touched_threads || stored.thread;
                touched_positions := touched_positions || stored.position;
                touched_edits := touched_edits || edit.number::integer;
                touched_sides := touched_sides || 'before'::text;
            END IF;
            IF stored.searched THEN
                counted_subjects := counted_subjects || edit.subject;
                counted_scopes := counted_scopes || stored.scope;
                counted_voices := counted_voices || stored.voice;
                counted_passages := counted_passages || -1;
                counted_tokens := counted_tokens || -stored.length;
            END IF;
        END IF;

        IF edit.after IS NULL THEN
            IF edit.subject = 'session' AND EXISTS (
                SELECT FROM reverie.thing t WHERE t.space = of_space AND t.thread = of_key
            ) THEN
                PERFORM reverie.refuse('has turns', edit.number);
            END IF;
            DELETE FROM reverie.thing t WHERE t.space = of_space AND t.subject = edit.subject AND t.key = of_key;
        ELSE
            SELECT * INTO made FROM json_to_record(edit.after::json) AS d (
                scope text, at bigint, created_at bigint, updated_at bigint, valid_from bigint, valid_to bigint,
                expires_at bigint, archived_at bigint, kind text, role text, layer text, origin text, category text,
                pinned integer, importance double precision, confidence double precision, session text,
                page text, position double precision
            );
            in_scope := coalesce(made.scope, '');
            is_searched := edit.length IS NOT NULL AND made.archived_at IS NULL;
            of_thread := NULL;
            IF edit.subject = 'record' AND made.archived_at IS NULL THEN
                SELECT t.id INTO other FROM reverie.thing t
                    WHERE t.space = of_space AND t.scope = in_scope AND t.fingerprint = edit.fingerprint
                        AND t.key <> of_key;
                IF FOUND THEN
                    PERFORM reverie.refuse('same words', edit.number, other);
                END IF;
            ELSIF edit.subject = 'turn' THEN
                SELECT t.key INTO of_thread FROM reverie.thing t
                    WHERE t.space = of_space AND t.subject = 'session' AND t.id = made.session;
                IF NOT FOUND THEN
                    PERFORM reverie.refuse('no session', edit.number);
                END IF;
                IF EXISTS (
                    SELECT FROM reverie.thing t WHERE t.space = of_space AND t.thread = of_thread
                        AND t.position = made.position AND t.key <> of_key
                ) THEN
                    PERFORM reverie.refuse('place taken', edit.number);
                END IF;
                touched_threads := touched_threads || of_thread;
                touched_positions := touched_positions || made.position;
                touched_edits := touched_edits || edit.number::integer;
                touched_sides := touched_sides || 'after'::text;
            END IF;
            INSERT INTO reverie.thing AS t (
                space, subject, key, id, scope, at, updated_at, valid_from, valid_to, expires_at, archived_at,
                kind, layer, origin, category, tags, pinned, importance, confidence, fingerprint, page, thread,
                position, searched, length, voice, cues, dates, terms, body
            ) VALUES (
                of_space, edit.subject, of_key, edit.id, in_scope, coalesce(made.created_at, made.at),
                CASE WHEN edit.subject = 'record' THEN made.updated_at END,
                made.valid_from, made.valid_to, made.expires_at, made.archived_at, coalesce(made.kind, made.role),
                made.layer, made.origin, made.category,
                ARRAY(SELECT json_array_elements_text(edit.tags::json)), made.pinned = 1,
                made.importance, made.confidence, CASE WHEN made.archived_at IS NULL THEN edit.fingerprint END,
                CASE WHEN edit.subject = 'paragraph' THEN made.page END, of_thread, made.position, is_searched,
                coalesce(edit.length, 0), coalesce(edit.voice, ''), coalesce(edit.cues, ''),
                coalesce(edit.dates, ''), coalesce(edit.terms, ''), edit.after::json
            ) ON CONFLICT (space, subject, key) DO UPDATE SET (
                scope, at, updated_at, valid_from, valid_to, expires_at, archived_at, kind, layer, origin, category,
                tags, pinned, importance, confidence, fingerprint, page, thread, position, searched, length, voice,
                cues, dates, terms, body
            ) = (
                excluded.scope, excluded.at, excluded.updated_at, excluded.valid_from, excluded.valid_to,
                excluded.expires_at, excluded.archived_at, excluded.kind, excluded.layer, excluded.origin,
                excluded.category, excluded.tags, excluded.pinned, excluded.importance, excluded.confidence,
                excluded.fingerprint, excluded.page, excluded.thread, excluded.position, excluded.searched,
                excluded.length, excluded.voice, excluded.cues, excluded.dates, excluded.terms, excluded.body
            );
            IF is_searched THEN
                counted_subjects := counted_subjects || edit.subject;
                counted_scopes := counted_scopes || in_scope;
                counted_voices := counted_voices || coalesce(edit.voice, '');
                counted_passages := counted_passages || 1;
                counted_tokens := counted_tokens || edit.length;
            END IF;
        END IF;
        CONTINUE WHEN restored_keys IS NOT NULL;
        INSERT INTO reverie.journal VALUES (
            of_space, head + edit.number, first, of_key, edit.subject, edit.id, of_at, of_actor, of_reason,
            CASE WHEN edit.before IS NOT NULL THEN stored.body END, edit.after::json
        );
        keys := keys || of_key;
        IF edit.subject = 'record' THEN
            record_head := head + edit.number;
        END IF;
    END LOOP;

    -- Positions were without a gap before. One came about only if a turn that came has none before it, or if a
    -- turn that went has one after it.
    FOR index IN 1..CASE WHEN restored_keys IS NULL THEN cardinality(touched_threads) ELSE 0 END LOOP
        SELECT touched_threads[index] AS thread, touched_positions[index] AS position, touched_edits[index] AS number,
            touched_sides[index] AS side INTO place;
        IF EXISTS (
            SELECT FROM reverie.thing t
            WHERE t.space = of_space AND t.thread = place.thread AND t.position = place.position
        ) THEN
            CONTINUE WHEN place.position = 0 OR EXISTS (
                SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place.thread AND t.position = place.position - 1
            );
        ELSE
            CONTINUE WHEN NOT EXISTS (
                SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place.thread AND t.position > place.position
            );
        END IF;
        RAISE EXCEPTION 'conflict' USING ERRCODE = 'RV001', DETAIL = json_build_object(
            'reason', 'gap', 'change', place.number, 'side', place.side, 'position',
            (SELECT min(n) FROM generate_series(0, (SELECT count(*) FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place.thread)) AS n
            WHERE NOT EXISTS (SELECT FROM reverie.thing t
                WHERE t.space = of_space AND t.thread = place.thread AND t.position = n)));
    END LOOP;

    IF cardinality(counted_passages) > 0 THEN
        INSERT INTO reverie.measure AS m
            SELECT of_space, c.subject, a.area, c.voice, sum(c.passages), sum(c.tokens)
            FROM unnest(counted_subjects, counted_scopes, counted_voices, counted_passages, counted_tokens)
                AS c (subject, scope, voice, passages, tokens)
            CROSS JOIN LATERAL (VALUES ('*'), ('=' || c.scope)) AS a (area)
            GROUP BY c.subject, a.area, c.voice
            HAVING sum(c.passages) <> 0 OR sum(c.tokens) <> 0
            ON CONFLICT (space, area, subject, voice) DO UPDATE
                SET passages = m.passages + excluded.passages, tokens = m.tokens + excluded.tokens;
    END IF;
    IF -1 = ANY (counted_passages) THEN
        DELETE FROM reverie.measure m WHERE m.space = of_space AND m.passages = 0;
    END IF;

    IF is_erasure THEN
        UPDATE reverie.journal j SET before = NULL, after = CASE WHEN j.sequence = e.newest THEN j.after END,
            reason = '', id = CASE WHEN e.subject IN ('session', 'page') AND NOT EXISTS (
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
    UPDATE reverie.space SET sequence = head + cardinality(ids), commits = commit_number + 1,
        record_sequence = record_head
        WHERE id = of_space;
    INSERT INTO reverie.receipt (space, number, token, first) VALUES (of_space, commit_number + 1, of_token, first);
    IF commit_number % 1000 = 999 THEN
        DELETE FROM reverie.receipt WHERE space = of_space AND made_at < clock_timestamp() - interval '1 hour';
    END IF;
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
