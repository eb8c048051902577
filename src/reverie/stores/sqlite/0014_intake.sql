-- Whom a record is about, until when it matters, and whether acting on it needs permission.
ALTER TABLE records ADD COLUMN about TEXT;
ALTER TABLE records ADD COLUMN until INTEGER;
ALTER TABLE records ADD COLUMN permission INTEGER;
