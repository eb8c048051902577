-- Words for search that the analyzer makes otherwise today. Background work renews them.

-- Up to which thing the words of a memory are renewed; NULL where nothing is to be.
ALTER TABLE reverie.work ADD COLUMN renewed_subject text COLLATE "C", ADD COLUMN renewed_key bigint;

-- Lets the words of all memories be renewed: each step calls it that comes with another analyzer.
CREATE FUNCTION reverie.expect_new_words() RETURNS void LANGUAGE sql AS $$
    UPDATE reverie.work SET renewed_subject = '', renewed_key = 0, due_at = least(due_at, clock_timestamp())
$$;

-- Gives things the words of a new analysis, unless they have changed since it was made. Counters and postings follow.
CREATE OR REPLACE FUNCTION reverie.renew_words(
    of_space integer, patience text, subjects text[], of_keys bigint[], bodies text[], lengths integer[],
    voices text[], all_cues text[], all_dates text[], all_terms text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fence bigint := nullif(current_setting('reverie.fence', true), '')::bigint;
    renewed bigint;
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    PERFORM FROM reverie.space WHERE id = of_space FOR UPDATE;
    IF fence IS NOT NULL AND NOT EXISTS (SELECT FROM reverie.work WHERE space = of_space AND token = fence) THEN
        RAISE EXCEPTION 'the lease was taken over' USING ERRCODE = 'RV003';
    END IF;
    INSERT INTO reverie.measure AS m
        SELECT of_space, c.subject, a.area, c.voice, sum(c.passages), sum(c.tokens)
        FROM unnest(subjects, of_keys, bodies, lengths, voices) AS g (subject, key, body, length, voice)
        JOIN reverie.thing t ON t.space = of_space AND t.subject = g.subject AND t.key = g.key
            AND t.searched AND t.body::text = g.body
        CROSS JOIN LATERAL (VALUES (t.subject, t.voice, -1, -t.length), (t.subject, g.voice, 1, g.length))
            AS c (subject, voice, passages, tokens)
        CROSS JOIN LATERAL (VALUES ('*'), ('=' || t.scope)) AS a (area)
        GROUP BY c.subject, a.area, c.voice
        ON CONFLICT (space, area, subject, voice) DO UPDATE
            SET passages = m.passages + excluded.passages, tokens = m.tokens + excluded.tokens;
    DELETE FROM reverie.measure WHERE space = of_space AND passages = 0;
    UPDATE reverie.thing t SET length = g.length, voice = g.voice, cues = g.cues, dates = g.dates, terms = g.terms
        FROM unnest(subjects, of_keys, bodies, lengths, voices, all_cues, all_dates, all_terms)
            AS g (subject, key, body, length, voice, cues, dates, terms)
        WHERE t.space = of_space AND t.subject = g.subject AND t.key = g.key AND t.body::text = g.body;
    GET DIAGNOSTICS renewed = ROW_COUNT;
    RETURN renewed;
END $$;

SELECT reverie.expect_new_words();
