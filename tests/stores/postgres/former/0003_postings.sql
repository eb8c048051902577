-- Postings for search in the database, of those memories for which they were asked, and the fence of entries.
--
-- A posting says that a passage has a token. Postings are made from the columns of `thing` by a trigger, so in the
-- transaction of the change, and by whoever makes it. The filters of a search are applied to `thing`.
--
-- `field` is the first letter of the subject, and `w` for a word, `d` for the word of a date, `s` for a speaker, `c` for
-- a cue of a record, or `v` for a word that some passage of the scope has: this one has the key 0.

ALTER TABLE reverie.space ADD COLUMN has_postings boolean NOT NULL DEFAULT false;

CREATE TABLE reverie.posting (
    key bigint NOT NULL,
    space integer NOT NULL,
    emphasis smallint NOT NULL,     -- weight of the token by how often the passage has it
    brevity smallint NOT NULL,      -- weight of the passage by its length
    field text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, field, token, scope, key) INCLUDE (emphasis, brevity)
) PARTITION BY HASH (space);

DO $$
DECLARE
    place text;
    allowed regrole;
BEGIN
    FOR number IN 0..31 LOOP
        EXECUTE format('CREATE TABLE reverie.posting_%s PARTITION OF reverie.posting '
            'FOR VALUES WITH (MODULUS 32, REMAINDER %s)', number, number);
    END LOOP;
    FOR place IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname LIKE 'posting%'
    LOOP
        EXECUTE format('ALTER TABLE reverie.%I ENABLE ROW LEVEL SECURITY', place);
        EXECUTE format('ALTER TABLE reverie.%I FORCE ROW LEVEL SECURITY', place);
        EXECUTE format('CREATE POLICY one_memory ON reverie.%I '
            'USING (space = current_setting(''reverie.space'')::integer)', place);
    END LOOP;
    FOR allowed IN
        SELECT DISTINCT a.grantee::regrole FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'reverie.space'::regclass AND a.privilege_type = 'UPDATE' AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON reverie.posting TO %s', allowed);
    END LOOP;
END $$;

-- The postings of one passage, without tokens that are too long for an index. The weights are those of `compute_emphasis` and `compute_brevity` in
-- `search/index/inverted_index.py`.
CREATE FUNCTION reverie.list_postings(
    subject text, length integer, voice text, cues text, dates text, terms text,
    OUT field text, OUT token text, OUT emphasis smallint, OUT brevity smallint
) RETURNS SETOF record LANGUAGE sql IMMUTABLE ROWS 30 AS $$
    SELECT left(subject, 1) || t.sort, t.token,
        CASE WHEN t.sort = 'w' THEN 2 + (t.times >= 2)::integer + (t.times >= 3)::integer + (t.times >= 4)::integer
            + (t.times >= 6)::integer + (t.times >= 8)::integer + (t.times >= 12)::integer ELSE 2 END::smallint,
        greatest(1, round(63 / sqrt(1 + length::double precision / 10)))::smallint
    FROM (
        SELECT s.sort, u.token, count(*) AS times
        FROM (VALUES
            ('w', string_to_array(terms, ' ')), ('d', string_to_array(dates, ' ')), ('s', ARRAY[voice]),
            ('c', CASE WHEN subject = 'record' THEN string_to_array(cues, ' ') END)
        ) AS s (sort, tokens), unnest(s.tokens) AS u (token)
        WHERE u.token <> '' AND octet_length(u.token) <= 1000 GROUP BY s.sort, u.token
    ) AS t
$$;

-- What the table has to hold of a memory.
CREATE FUNCTION reverie.derive_postings(of_space integer)
RETURNS TABLE (key bigint, emphasis smallint, brevity smallint, field text, token text, scope text)
LANGUAGE sql STABLE AS $$
    WITH of_passages AS (
        SELECT t.key, p.emphasis, p.brevity, p.field COLLATE "C" AS field, p.token COLLATE "C" AS token, t.scope
        FROM reverie.thing t,
            LATERAL reverie.list_postings(t.subject, t.length, t.voice, t.cues, t.dates, t.terms) p
        WHERE t.space = of_space AND t.searched
    )
    SELECT * FROM of_passages
    UNION ALL
    SELECT DISTINCT 0::bigint, 0::smallint, 0::smallint, left(field, 1) || 'v', token, scope
    FROM of_passages WHERE right(field, 1) = 'w'
$$;

-- Makes the postings of a memory where it has none, or anew. From then on every change maintains them.
CREATE FUNCTION reverie.make_postings(of_space integer, patience text, is_renewal boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('reverie.space', of_space::text, true), set_config('lock_timeout', patience, true);
    PERFORM FROM reverie.space WHERE id = of_space FOR UPDATE;
    IF NOT is_renewal AND EXISTS (SELECT FROM reverie.space WHERE id = of_space AND has_postings) THEN
        RETURN false;
    END IF;
    DELETE FROM reverie.posting WHERE space = of_space;
    INSERT INTO reverie.posting (key, space, emphasis, brevity, field, token, scope)
        SELECT d.key, of_space, d.emphasis, d.brevity, d.field, d.token, d.scope
        FROM reverie.derive_postings(of_space) d;
    UPDATE reverie.space SET has_postings = true WHERE id = of_space;
    RETURN true;
END $$;

CREATE FUNCTION reverie.note_passage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    words text[];
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.searched, OLD.scope, OLD.length, OLD.voice, OLD.cues, OLD.dates, OLD.terms)
            IS NOT DISTINCT FROM (NEW.searched, NEW.scope, NEW.length, NEW.voice, NEW.cues, NEW.dates, NEW.terms) THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM reverie.space WHERE id = coalesce(NEW.space, OLD.space) AND has_postings) THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' AND OLD.searched THEN
        words := string_to_array(OLD.terms, ' ');
        DELETE FROM reverie.posting p
            WHERE p.space = OLD.space AND p.scope = OLD.scope AND p.key = OLD.key
                AND p.field = ANY (ARRAY[left(OLD.subject, 1) || 'w', left(OLD.subject, 1) || 'd',
                    left(OLD.subject, 1) || 's', left(OLD.subject, 1) || 'c'])
                AND p.token = ANY (words || string_to_array(OLD.dates, ' ') || string_to_array(OLD.cues, ' ')
                    || OLD.voice);
        DELETE FROM reverie.posting v
            WHERE v.space = OLD.space AND v.scope = OLD.scope AND v.key = 0 AND v.field = left(OLD.subject, 1) || 'v'
                AND v.token = ANY (words) AND NOT EXISTS (
                    SELECT FROM reverie.posting p WHERE p.space = OLD.space AND p.scope = OLD.scope
                        AND p.field = left(OLD.subject, 1) || 'w' AND p.token = v.token
                );
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.searched THEN
        INSERT INTO reverie.posting (key, space, emphasis, brevity, field, token, scope)
            SELECT NEW.key, NEW.space, p.emphasis, p.brevity, p.field, p.token, NEW.scope
            FROM reverie.list_postings(NEW.subject, NEW.length, NEW.voice, NEW.cues, NEW.dates, NEW.terms) p;
        INSERT INTO reverie.posting (key, space, emphasis, brevity, field, token, scope)
            SELECT 0, NEW.space, 0, 0, left(NEW.subject, 1) || 'v', u.token, NEW.scope
            FROM unnest(string_to_array(NEW.terms, ' ')) AS u (token)
            WHERE u.token <> '' AND octet_length(u.token) <= 1000
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER note_passage AFTER INSERT OR UPDATE OR DELETE ON reverie.thing
    FOR EACH ROW EXECUTE FUNCTION reverie.note_passage();

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
