SELECT current_setting('server_version'),
    (SELECT count(*) FROM reverie.space),
    (SELECT count(*) FROM reverie.worker WHERE seen_at > clock_timestamp() - interval '1 minute'),
    count(*) FILTER (WHERE due_at <= clock_timestamp()),
    round(coalesce(
        extract(epoch FROM clock_timestamp() - min(due_at) FILTER (WHERE due_at <= clock_timestamp())), 0
    ), 1)::double precision,
    count(*) FILTER (WHERE failures > 0),
    (SELECT count(*) FROM pg_stat_replication),
    (SELECT extract(epoch FROM max(replay_lag))::double precision FROM pg_stat_replication)
FROM reverie.work
