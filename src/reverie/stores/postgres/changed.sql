-- No join: without statistics, as after a copy, one would compare every thing with every change.
WITH
    things AS MATERIALIZED (
        SELECT subject, key, sha256(convert_to(body::text, 'UTF8')) FROM reverie.thing WHERE space = %(space)s
    ),
    latest AS MATERIALIZED (
        SELECT subject, key, sha256(convert_to(after::text, 'UTF8'))
        FROM (
            SELECT DISTINCT ON (key) subject, key, after FROM reverie.journal WHERE space = %(space)s
            ORDER BY key, sequence DESC
        ) AS newest
        WHERE after IS NOT NULL
    )
SELECT DISTINCT subject, key
FROM ((TABLE things EXCEPT TABLE latest) UNION ALL (TABLE latest EXCEPT TABLE things)) AS differing
ORDER BY subject, key LIMIT 20
