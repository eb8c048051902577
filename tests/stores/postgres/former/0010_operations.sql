-- A change has an operation, a person's note and a reference, where it had one text. Known words become the operation;
-- everything else was somebody's words, and becomes the note.

ALTER TABLE reverie.journal RENAME COLUMN reason TO note;
ALTER TABLE reverie.journal ADD COLUMN operation text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE reverie.journal ADD COLUMN reference text COLLATE "C" NOT NULL DEFAULT '';
DROP TRIGGER forget_vectors ON reverie.journal;  -- no vector is out of date by this
DO $$
DECLARE
    of_space integer;
BEGIN
    FOR of_space IN SELECT id FROM reverie.space LOOP  -- the rows of a memory are seen under its number only
        PERFORM set_config('reverie.space', of_space::text, true);
        UPDATE reverie.journal SET operation = CASE
            WHEN before IS NULL AND after IS NULL THEN 'forget'
            WHEN note IN (
                'save', 'update', 'pin', 'unpin', 'archive', 'restore', 'purge', 'write', 'append', 'replace', 'feedback',
                'vouch'
            ) THEN note
            WHEN note LIKE 'undo of change%' THEN 'undo'
            WHEN note LIKE 'promoted from ____________' THEN 'promote'
            WHEN note LIKE 'edited by hand: %' THEN 'edit_file'
            WHEN note LIKE 'file deleted by hand: %' THEN 'delete_file'
            WHEN note LIKE 'rebuilt from the folder%' THEN 'rebuild'
            WHEN note LIKE 'import %' AND note NOT LIKE 'import % %' THEN 'import'
            WHEN note = 'expired' OR note LIKE '%: expired' THEN 'expire'
            WHEN note LIKE '%: put' THEN 'put'
            WHEN note LIKE '%: read' THEN 'renew'
            WHEN note IN ('delete page', 'delete session', 'delete file', 'item removed') OR note LIKE '%: delete%' THEN 'delete'
            WHEN note IN ('create file', 'edit file', 'edited by the agent') THEN 'write'
            WHEN note LIKE '%: create %' OR note LIKE '%: add %' THEN 'write'
            WHEN note = 'rename file' THEN 'rename'
            WHEN note = 'clear all memory' THEN 'clear'
            WHEN note = 'archived by the agent' OR note LIKE 'deleted over %''s interface' THEN 'archive'
            WHEN note = 'its document was retained anew' OR note = 'the session has gone on' THEN 'withdraw'
            WHEN note IN ('active', 'paused', 'terminated') AND subject = 'session' THEN 'set_status'
            WHEN note = 'metadata' THEN 'set_metadata'
            WHEN note = 'begun anew' THEN 'restart'
            WHEN note = 'label' THEN 'tag'
            WHEN note IN ('settle a conflict', 'both hold') THEN 'settle'
            WHEN note = 'ask the owner about the proposal' THEN 'ask'
            WHEN note = 'accept the proposal' THEN 'accept'
            WHEN note = 'reject the proposal' THEN 'reject'
            WHEN note = 'leave the proposal for later' THEN 'postpone'
            WHEN note LIKE '% ____________' AND actor = 'dream' THEN 'dream'
            ELSE ''
        END;
        UPDATE reverie.journal SET note = CASE WHEN operation IN ('edit_file', 'delete_file', 'rebuild') AND note LIKE '%: %'
                THEN substr(note, strpos(note, ': ') + 2) ELSE '' END,
            reference = CASE operation
                WHEN 'undo' THEN replace(replace(note, 'undo of changes ', ''), 'undo of change ', '')
                WHEN 'promote' THEN substr(note, 15)
        WHEN 'import' THEN substr(note, 8)
                WHEN 'dream' THEN note
                ELSE '' END
            WHERE operation <> '';
        UPDATE reverie.journal SET operation = CASE
            WHEN subject = 'turn' AND before IS NULL THEN 'say'
            WHEN subject = 'page' THEN 'write'
            WHEN subject = 'paragraph' THEN 'append'
            WHEN note <> '' AND subject = 'record' AND before IS NOT NULL THEN 'archive'
            WHEN note <> '' AND subject = 'record' THEN 'save'
            ELSE 'update'
        END WHERE operation = '';
    END LOOP;
END $$;
CREATE TRIGGER forget_vectors AFTER UPDATE ON reverie.journal
    FOR EACH ROW EXECUTE FUNCTION reverie.forget_vectors();

-- A past state is found by its time without reading the journal.
CREATE INDEX journal_times ON reverie.journal (space, at, sequence);

-- The function of a commit takes the three texts; the rest of it stays.
DO $$
DECLARE
    signature text := pg_get_function_identity_arguments('reverie.change_things'::regproc);
    definition text := pg_get_functiondef('reverie.change_things'::regproc);
BEGIN
    EXECUTE format('DROP FUNCTION reverie.change_things(%s)', signature);
    definition := replace(definition, 'of_reason text', 'of_operation text, of_note text, of_reference text');
    definition := replace(
        definition, 'of_reason, stored.body, of_after', 'of_note, stored.body, of_after, of_operation, of_reference'
    );
    EXECUTE replace(definition, 'reason = '''', id =', 'note = '''', reference = '''', id =');
END $$;
