-- Headlines are few: their index is not touched when another record is written.
ALTER TABLE records ADD COLUMN parts TEXT;
CREATE INDEX records_headlines ON records (scope) WHERE parts IS NOT NULL;
