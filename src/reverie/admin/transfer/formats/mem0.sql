SELECT memory_id AS id, coalesce(new_memory, old_memory) AS memory, first_at AS created_at,
    coalesce(updated_at, created_at) AS updated_at,
    CASE event WHEN 'DELETE' THEN coalesce(updated_at, created_at) END AS ended_at
FROM (
    SELECT *, min(created_at) OVER (PARTITION BY memory_id) AS first_at,
        row_number() OVER (PARTITION BY memory_id ORDER BY rowid DESC) AS place FROM history
) WHERE place = 1 ORDER BY first_at, memory_id
