-- The newest of a hundred thousand are listed without sorting all.
CREATE INDEX records_created ON records (created_at);
