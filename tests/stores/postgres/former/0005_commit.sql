-- The function of a commit, and the triggers that run in it.

-- The row of a thing. It is made part of the statement that asks for it.
CREATE FUNCTION reverie.build_thing(
    of_space integer, of_subject text, of_key bigint, of_id text, body json, of_fingerprint text, tags text,
    of_thread bigint, is_searched boolean, length integer, voice text, cues text, dates text, terms text
) RETURNS SETOF reverie.thing LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT of_space, of_subject, of_key, of_id, coalesce(d.scope, ''), coalesce(d.created_at, d.at),
        CASE WHEN of_subject = 'record' THEN d.updated_at END, d.valid_from, d.valid_to, d.expires_at, d.archived_at,
        coalesce(d.kind, d.role), d.layer, d.origin, d.category, ARRAY(SELECT json_array_elements_text(tags::json)),
        d.pinned = 1, d.importance, d.confidence, of_fingerprint, CASE WHEN of_subject = 'paragraph' THEN d.page END,
        of_thread, d.position, is_searched, coalesce(length, 0), coalesce(voice, ''), coalesce(cues, ''),
        coalesce(dates, ''), coalesce(terms, ''), body
    FROM json_to_record(body) AS d (
        scope text, at bigint, created_at bigint, updated_at bigint, valid_from bigint, valid_to bigint,
        expires_at bigint, archived_at bigint, kind text, role text, layer text, origin text, category text,
        pinned integer, importance double precision, confidence double precision, page text, position double precision
    )
$$;

-- Makes all changes, or none. A refusal is the SQLSTATE RV001 with a JSON detail that names the reason and the
-- number of the change, never content: details are written to the server's log.
--
-- With `restored_keys` the changes are things that the journal has already, as when a memory is copied: they are
-- inserted under these keys, and nothing is written to the journal.
CREATE OR REPLACE FUNCTION reverie.change_things(
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
    with_postings boolean;
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
    is_searched boolean;
    stored reverie.thing;
    place_thread bigint;
    place_position double precision;
    touched_threads bigint[] := '{}';
    touched_positions double precision[] := '{}';
    touched_edits integer[] := '{}';
    touched_sides text[] := '{}';
    counted_subjects text[] := '{}';
    counted_scopes text[] := '{}';
    counted_voices text[] := '{}';
    counted_passages integer[] := '{}';
    counted_tokens integer[] := '{}';
    areas bigint;
    setting text;
BEGIN
    -- Assignments and conditions without a query take a fraction of the time of a statement.
    setting := set_config('reverie.space', of_space::text, true);
    setting := set_config('lock_timeout', patience, true);
    -- Generic plans: planning each statement anew for its partition would take longer than running it.
    setting := set_config('plan_cache_mode', 'force_generic_plan', true);
    IF current_setting('synchronous_commit') = 'off' THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT sequence, record_sequence, commits, has_postings INTO head, record_head, commit_number, with_postings
        FROM reverie.space WHERE id = of_space FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this memory has been removed' USING ERRCODE = 'RV002';
    END IF;
    setting := set_config('reverie.has_postings', with_postings::text, true);
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
            IF stored.searched THEN
                counted_subjects := counted_subjects || of_subject;
                counted_scopes := counted_scopes || stored.scope;
                counted_voices := counted_voices || stored.voice;
                counted_passages := counted_passages || -1;
                counted_tokens := counted_tokens || -stored.length;
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
            is_searched := of_after ->> 'archived_at' IS NULL;
            of_fingerprint := CASE WHEN is_searched THEN fingerprints[number] END;
            is_searched := is_searched AND lengths[number] IS NOT NULL;
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
                    of_space, of_subject, of_key, of_id, of_after, of_fingerprint, folded_tags[number], of_thread,
                    is_searched, lengths[number], voices[number], all_cues[number], all_dates[number], all_terms[number]
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
                    category, tags, pinned, importance, confidence, fingerprint, page, thread, position, searched,
                    length, voice, cues, dates, terms, body
                ) = (
                    n.scope, n.at, n.updated_at, n.valid_from, n.valid_to, n.expires_at, n.archived_at, n.kind, n.layer,
                    n.origin, n.category, n.tags, n.pinned, n.importance, n.confidence, n.fingerprint, n.page, n.thread,
                    n.position, n.searched, n.length, n.voice, n.cues, n.dates, n.terms, n.body
                ) FROM reverie.build_thing(
                    of_space, of_subject, of_key, of_id, of_after, of_fingerprint, folded_tags[number], of_thread,
                    is_searched, lengths[number], voices[number], all_cues[number], all_dates[number], all_terms[number]
                ) AS n WHERE t.space = of_space AND t.subject = of_subject AND t.key = of_key;
            END IF;
            IF is_searched THEN
                counted_subjects := counted_subjects || of_subject;
                counted_scopes := counted_scopes || in_scope;
                counted_voices := counted_voices || coalesce(voices[number], '');
                counted_passages := counted_passages || 1;
                counted_tokens := counted_tokens || lengths[number];
            END IF;
        END IF;
        CONTINUE WHEN restored_keys IS NOT NULL;
        INSERT INTO reverie.journal VALUES (
            of_space, head + number, first, of_key, of_subject, of_id, of_at, of_actor, of_reason, stored.body, of_after
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

    IF cardinality(counted_passages) = 1 THEN
        UPDATE reverie.measure m SET passages = m.passages + counted_passages[1], tokens = m.tokens + counted_tokens[1]
            WHERE m.space = of_space AND m.area IN ('*', '=' || counted_scopes[1])
                AND m.subject = counted_subjects[1] AND m.voice = counted_voices[1];
        GET DIAGNOSTICS areas = ROW_COUNT;
        IF areas < 2 THEN
            INSERT INTO reverie.measure SELECT of_space, counted_subjects[1], a.area, counted_voices[1],
                    counted_passages[1], counted_tokens[1]
                FROM (VALUES ('*'), ('=' || counted_scopes[1])) AS a (area) ON CONFLICT DO NOTHING;
        END IF;
    ELSIF cardinality(counted_passages) > 1 THEN
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

-- `change_things` does what it did.
DROP TRIGGER note_change ON reverie.space;
DROP FUNCTION reverie.note_change();

-- `change_things` says whether there are postings; elsewhere the function looks.
DROP TRIGGER note_passage ON reverie.thing;
CREATE TRIGGER note_passage AFTER INSERT OR UPDATE OR DELETE ON reverie.thing
    FOR EACH ROW WHEN (current_setting('reverie.has_postings', true) IS DISTINCT FROM 'false')
    EXECUTE FUNCTION reverie.note_passage();
