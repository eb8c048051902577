-- Facts that earlier versions stored in the metadata, where a caller could set them.
ALTER TABLE records ADD COLUMN draft INTEGER;
ALTER TABLE records ADD COLUMN item_key TEXT;
ALTER TABLE records ADD COLUMN resolved_dates TEXT;
ALTER TABLE records ADD COLUMN replaced_by TEXT;
ALTER TABLE records ADD COLUMN replaces TEXT;
ALTER TABLE records ADD COLUMN promoted_from TEXT;
