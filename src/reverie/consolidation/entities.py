"""Files, addresses, languages and tools that a text names."""

from __future__ import annotations

import re

from reverie.consolidation.sentences import LONGEST_TEXT, is_likely_secret
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import load_words


def extract_references(text: str) -> tuple[str, ...]:
    """Return files, addresses, tests, issues and commits that a text names, in order; at most 20.

    >>> extract_references("Fixed tests/test_api.py::test_login in 4f2a9c1, see #42 and https://x.org/a.")
    ('tests/test_api.py::test_login', '4f2a9c1', '#42', 'https://x.org/a')
    """
    found: dict[str, None] = {}
    for each in _REFERENCE.finditer(text[:LONGEST_TEXT]):
        name = each.group().rstrip(".,;:!?)]}'\"")
        is_word = each.lastgroup == "commit" and (name.isdigit() or name.isalpha())
        if name and not is_word and not is_likely_secret(name):
            found[name[:500]] = None
    return tuple(found)[:_MAX_REFERENCES]


def extract_tags(text: str) -> tuple[str, ...]:
    """Return programming languages and tools that a text names, in lower case; at most 8.

    >>> extract_tags("The Docker build of the Go service fails in app.py")
    ('docker', 'go', 'python')
    """
    words = (each.group().lower() for each in _NAMED.finditer(text[:LONGEST_TEXT]))
    tags = (_TOOLS.get(word) or _ENDINGS.get(word.rpartition(".")[2]) or word for word in words)
    return tuple(dict.fromkeys(tags))[:_MAX_TAGS]


_MAX_REFERENCES = 20
_MAX_TAGS = 8
_SUFFIXES = (
    "py|pyi|js|ts|tsx|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|sh|bash|ps1|sql|html|css|"
    "scss|vue|json|yaml|yml|toml|xml|ini|cfg|conf|env|md|rst|txt|csv|tsv|log|lock|ipynb|proto|tf|gradle|dart|"
    "lua|ex|exs|hs|ml|r|kts|groovy"
)
# In capitals too, as in `README.MD`; not mixed, which is a new sentence after a missing space (`Done.Go on`), and
# not single letters, which are initials.
_SUFFIXES = "|".join((_SUFFIXES, *(each.upper() for each in _SUFFIXES.split("|") if len(each) > 1)))
# Every run is bounded: from each place in a long rule of hyphens, an unbounded one is read to its end again.
_REFERENCE = defer_regex(
    rf"""(?P<url>https?://[^\s<>"'`|]+)
      | (?P<test>[\w./-]{{1,300}}\.py(?:::[\w\[\]-]+)+)
      | (?P<path>(?<![\w@/.])(?:~|\.{{1,2}})?/?(?:[\w@.+-]{{1,255}}/){{1,40}}
          [\w@.+-]{{0,255}}\.(?:{_SUFFIXES})\b(?!\.\w))
      | (?P<rooted>(?<![\w/.:<])(?:~|\.{{1,2}})?/(?:[\w@.+-]{{1,255}}/){{1,40}}[\w@.+-]{{0,255}}\w)
      | (?P<file>(?<![\w@/.])[\w-]{{1,255}}(?:\.[\w-]{{1,255}}){{0,20}}\.(?:{_SUFFIXES})\b(?!\.\w))
      | (?P<named>\btest_\w+\b | \btest[A-Z]\w+ | \bTest[A-Z]\w+(?:(?:::|[./\#])\w[\w-]*)*
          | \b[A-Z]\w*[a-z0-9]Tests?\b(?:(?:::|[.\#])\w+)*)
      | (?P<issue>(?<![\w&/])(?:[\w-]{{1,100}}/[\w.-]{{1,100}})?\#\d{{1,6}}\b | \b[A-Z][A-Z0-9]{{1,9}}-\d{{1,6}}\b)
      | (?P<commit>\b[0-9a-f]{{7,12}}\b | \b[0-9a-f]{{40}}\b)
    """,
    re.VERBOSE,
)
_TOOLS, _ENDINGS = load_words(__package__, "code_words.txt").values()
"""Tags by the names of languages and tools, and by the endings of file names."""

_TOOL_NAMES = "|".join(re.escape(name) for name in sorted(_TOOLS, key=len, reverse=True))
_NAMED = defer_regex(
    rf"(?<![\w.-])(?i:{_TOOL_NAMES})(?![\w+#]|\.\w|-\w)"
    r"|(?<![\w.])Go(?= (?:service|code|module|program|version|\d|binary|test|package|project|backend|"
    r"server))(?!\w)"
    rf"|(?<![\w])[\w/-]{{1,300}}\.(?:{'|'.join((*_ENDINGS, *(ending.upper() for ending in _ENDINGS)))})\b"
)
