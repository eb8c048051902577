-- Background work over all memories of a database: when each is to be looked at, and who works on it.
--
-- Like `space`, these tables have no row-level security: they hold numbers and times, and no content.

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

INSERT INTO reverie.work (space, due_at) SELECT id, clock_timestamp() FROM reverie.space;

CREATE FUNCTION reverie.add_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reverie.work (space) VALUES (NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER add_work AFTER INSERT ON reverie.space FOR EACH ROW EXECUTE FUNCTION reverie.add_work();

-- Runs in every commit, which holds the memory's row. `claim_work` and `take_lease` lock that row too, so a
-- lease does not change hands, and no look begins, while a commit is under way.
CREATE FUNCTION reverie.note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fence bigint := nullif(current_setting('reverie.fence', true), '')::bigint;
BEGIN
    IF fence IS NOT NULL AND NOT EXISTS (SELECT FROM reverie.work WHERE space = NEW.id AND token = fence) THEN
        RAISE EXCEPTION 'the lease was taken over' USING ERRCODE = 'RV003';
    END IF;
    IF NEW.sequence > OLD.sequence THEN
        UPDATE reverie.work SET due_at = clock_timestamp()
            WHERE space = NEW.id AND due_at > clock_timestamp() AND failures = 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER note_change AFTER UPDATE OF sequence ON reverie.space
    FOR EACH ROW EXECUTE FUNCTION reverie.note_change();

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

-- Whoever may change memories may do their background work.
DO $$
DECLARE
    allowed regrole;
BEGIN
    FOR allowed IN
        SELECT DISTINCT a.grantee::regrole FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'reverie.space'::regclass AND a.privilege_type = 'UPDATE' AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON reverie.work, reverie.worker TO %s', allowed);
    END LOOP;
END $$;
