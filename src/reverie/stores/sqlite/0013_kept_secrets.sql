-- Whether the owner wants the secrets in the content of a record to be stored.
ALTER TABLE records ADD COLUMN keep_secret INTEGER;
