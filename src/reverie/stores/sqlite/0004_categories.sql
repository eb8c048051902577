-- Lists, counts and measures of a category are read from this index alone.
CREATE INDEX records_category ON records (category, scope, archived_at, expires_at, updated_at, length) WHERE category IS NOT NULL;
