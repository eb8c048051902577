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

DO $$
DECLARE
    place text;
    allowed regrole;
BEGIN
    FOR number IN 0..31 LOOP
        EXECUTE format('CREATE TABLE reverie.vector_%s PARTITION OF reverie.vector '
            'FOR VALUES WITH (MODULUS 32, REMAINDER %s)', number, number);
    END LOOP;
    FOR place IN
        SELECT c.relname FROM pg_class c
        WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname LIKE 'vector%'
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
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON reverie.vector TO %s', allowed);
    END LOOP;
END $$;

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
            WHERE t.space = of_space AND t.subject IN ('record', 'turn', 'paragraph') AND t.key = g.key AND t.searched
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
