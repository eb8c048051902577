"""Check of a memory in PostgreSQL: its data against its journal, and the rights that keep memories apart."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.stores.codec import UnreadableRow, decode_value
from reverie.stores.health import StoreProblem
from reverie.stores.postgres.connections import PostgresConnections

_BATCH = 1000
_RESTORE = "bring back a backup of the database, or copy the memory from one with `reverie copy`"
_COUNTED = (
    ("journal: its numbers have a gap or do not end where the memory's row says",
     "SELECT 1 FROM reverie.space WHERE id = %(space)s AND (sequence <> (SELECT count(*) FROM reverie.journal "
     "WHERE space = %(space)s) OR sequence <> (SELECT coalesce(max(sequence), 0) FROM reverie.journal "
     "WHERE space = %(space)s))"),
    ("counters of search: they differ from a recount",
     "SELECT 1 FROM (SELECT subject, area, voice, count(*) AS passages, sum(length) AS tokens "
     "FROM reverie.thing CROSS JOIN LATERAL (VALUES ('*'), ('=' || scope)) AS a (area) "
     "WHERE space = %(space)s AND searched GROUP BY subject, area, voice) AS counted "
     "FULL JOIN (SELECT * FROM reverie.measure WHERE space = %(space)s) AS m USING (subject, area, voice) "
     "WHERE (m.passages, m.tokens) IS DISTINCT FROM (counted.passages, counted.tokens)"),
    ("conversations: a session has a gap in its turns",
     "SELECT 1 FROM reverie.thing WHERE space = %(space)s AND thread IS NOT NULL GROUP BY thread "
     "HAVING count(*) <> max(position) + 1 OR min(position) <> 0"),
)  # fmt: skip
_POSTINGS = (
    "WITH held AS (SELECT key, emphasis, brevity, field, token, scope FROM reverie.posting WHERE space = %(space)s), "
    "due AS (SELECT d.* FROM reverie.space AS s, reverie.derive_postings(s.id) AS d WHERE s.id = %(space)s "
    "AND s.has_postings) SELECT 1 WHERE EXISTS (TABLE held EXCEPT TABLE due) OR EXISTS (TABLE due EXCEPT TABLE held)"
)
_CHANGED = (  # no join: without statistics, as after a copy, one would compare every thing with every change
    "WITH things AS MATERIALIZED (SELECT subject, key, sha256(convert_to(body::text, 'UTF8')) FROM reverie.thing "
    "WHERE space = %(space)s), latest AS MATERIALIZED (SELECT subject, key, sha256(convert_to(after::text, 'UTF8')) "
    "FROM (SELECT DISTINCT ON (key) subject, key, after FROM reverie.journal WHERE space = %(space)s "
    "ORDER BY key, sequence DESC) AS newest WHERE after IS NOT NULL) SELECT DISTINCT subject, key FROM "
    "((TABLE things EXCEPT TABLE latest) UNION ALL (TABLE latest EXCEPT TABLE things)) AS differing "
    "ORDER BY subject, key LIMIT 20"
)
_BODIES = (
    "SELECT subject, key, body::text FROM reverie.thing WHERE space = %s AND (subject, key) > (%s, %s) "
    f"ORDER BY subject, key LIMIT {_BATCH}"
)
_UNPROTECTED = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'reverie'::regnamespace AND relkind IN ('r', 'p') "
    "AND relname NOT IN ('space', 'migration', 'work', 'worker') "
    "AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1"
)
_OPEN = (
    "SELECT c.relname FROM pg_class AS c LEFT JOIN pg_policy AS p ON p.polrelid = c.oid "
    "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') "
    "AND c.relname NOT IN ('space', 'migration', 'work', 'worker') GROUP BY c.relname HAVING count(p.oid) <> 1 "
    "OR min(pg_get_expr(p.polqual, p.polrelid)) <> '(space = (current_setting(''reverie.space''::text))::integer)' "
    "OR bool_or(p.polwithcheck IS NOT NULL) ORDER BY 1"
)
_MISSING = (
    "SELECT c.relname, string_agg(r.name, ', ' ORDER BY r.name), current_user::text FROM pg_class AS c "
    "CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (name) "
    "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "AND (c.relname <> 'migration' OR r.name = 'SELECT') AND NOT has_table_privilege(c.oid, r.name) "
    "GROUP BY c.relname ORDER BY 1"
)
_POWERFUL = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolbypassrls)"


def find_problems(connections: PostgresConnections) -> list[StoreProblem]:
    """Return all problems of a memory; an empty list if there are none.

    Args:
        connections: Its connections, in a `viewing` block, so that all is compared in one state.
    """
    missing = list(_iterate_missing_rights(connections))
    data = [] if missing else _iterate_data_problems(connections)  # what cannot be read is no damage
    return [*missing, *data, *_iterate_right_problems(connections)]


def has_damaged_postings(connections: PostgresConnections) -> bool:
    """Return whether the postings of a memory that has some differ from its passages."""
    return bool(connections.rows(_POSTINGS, {"space": connections.space}))


def _iterate_data_problems(connections: PostgresConnections) -> Iterator[StoreProblem]:
    memory = {"space": connections.space}
    for what, sql in _COUNTED:
        if connections.rows(sql, memory):
            yield StoreProblem(what=what, fix=_RESTORE)
    if has_damaged_postings(connections):
        yield StoreProblem(
            what="postings of search: they differ from the passages",
            fix="have them made again with `reverie doctor --fix`",
            repairable=True,
        )
    for subject, key in connections.rows(_CHANGED, memory):
        yield StoreProblem(what=f"{subject} {key}: it is not what the journal says", fix=_RESTORE)
    last: tuple[str, int] = ("", 0)
    while rows := connections.rows(_BODIES, (connections.space, *last)):
        for subject, key, body in rows:
            try:
                decode_value(subject, body)
            except UnreadableRow as error:
                yield StoreProblem(what=f"{subject} {key}: it cannot be read, {error}", fix=_RESTORE)
        last = rows[-1][0], rows[-1][1]


def _iterate_missing_rights(connections: PostgresConnections) -> Iterator[StoreProblem]:
    for name, rights, role in connections.rows(_MISSING):
        yield StoreProblem(
            what=f"table reverie.{name}: the role {role!r} lacks {rights}",
            fix=f'run GRANT {rights} ON reverie.{name} TO "{role}" as the owner of the tables',
        )


def _iterate_right_problems(connections: PostgresConnections) -> Iterator[StoreProblem]:
    for (name,) in connections.rows(_UNPROTECTED):
        yield StoreProblem(
            what=f"table reverie.{name}: row-level security is not forced, so memories are not kept apart",
            fix=f"run ALTER TABLE reverie.{name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        )
    for (name,) in connections.rows(_OPEN):
        yield StoreProblem(
            what=f"table reverie.{name}: its row-level security is not Reverie's, so memories are not kept apart",
            fix=f"drop all policies of reverie.{name}, and run CREATE POLICY one_memory ON reverie.{name} "
            "USING (space = current_setting('reverie.space')::integer)",
        )
    if connections.rows(_POWERFUL):
        yield StoreProblem(
            what="the role is a superuser or bypasses row-level security, so memories are not kept apart",
            fix="connect as a role with NOSUPERUSER NOBYPASSRLS",
        )
