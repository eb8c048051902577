"""Files, tools, addresses and secrets that a text names."""

from __future__ import annotations

import re
from itertools import pairwise

from reverie.consolidation.sentences import LONGEST_TEXT
from reverie.domain.lazy_regex import defer_regex, parse_word_set


def is_likely_secret(sentence: str) -> bool:
    """Whether a sentence seems to hold a key, a token or a password. Such a sentence is never stored.

    >>> is_likely_secret("The password is hunter2!"), is_likely_secret("Passwords must be hashed.")
    (True, False)
    """
    return _SECRET.search(sentence) is not None or any(
        _is_random(found.group()) for found in _LONG_RUN.finditer(sentence)
    )


def extract_references(text: str) -> tuple[str, ...]:
    """Return files, addresses, tests, issues and commits that a text names, in order; at most 20.

    >>> extract_references("Fixed tests/test_api.py::test_login in 4f2a9c1, see #42 and https://x.org/a.")
    ('tests/test_api.py::test_login', '4f2a9c1', '#42', 'https://x.org/a')
    """
    found: dict[str, None] = {}
    for each in _REFERENCE.finditer(text[:LONGEST_TEXT]):
        name = each.group().rstrip(".,;:!?)]}'\"")
        is_commit = each.lastgroup == "commit"
        if name and not (is_commit and (name.isdigit() or name.isalpha())) and not is_likely_secret(name):
            found[name[:500]] = None
    return tuple(found)[:_MOST_REFERENCES]


def extract_tags(text: str) -> tuple[str, ...]:
    """Return programming languages and tools that a text names, in lower case; at most 8.

    >>> extract_tags("The Docker build of the Go service fails in app.py")
    ('docker', 'go', 'python')
    """
    found: dict[str, None] = {}
    for each in _NAMED.finditer(text[:LONGEST_TEXT]):
        word = each.group()
        found[_TOOLS.get(word.lower()) or _ENDINGS.get(word.lower().rpartition(".")[2]) or word.lower()] = (
            None
        )
    return tuple(found)[:_MOST_TAGS]


_MOST_REFERENCES = 20
_MOST_TAGS = 8
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
_TOOLS = {
    name: name
    for name in parse_word_set("""
    python pytest django flask fastapi numpy pandas javascript typescript node npm pnpm yarn react vue
    angular svelte rust cargo java kotlin gradle maven c++ c# ruby rails php swiftui scala haskell
    elixir bash powershell sql postgresql mysql sqlite redis mongodb kafka rabbitmq elasticsearch docker
    kubernetes helm terraform ansible nginx aws azure gcp gitlab jenkins git graphql grpc webpack vite
    latex vim neovim emacs vscode systemd
    """)
} | {
    "node.js": "node",
    "golang": "go",
    "spring boot": "spring-boot",
    ".net": "dotnet",
    "postgres": "postgresql",
    "k8s": "kubernetes",
    "github actions": "github-actions",
}
"""Tag by the name of a tool in a text."""
_ENDINGS = {
    ending: language
    for language, endings in {
        "python": "py pyi",
        "javascript": "js mjs jsx",
        "typescript": "ts tsx",
        "rust": "rs",
        "java": "java",
        "kotlin": "kt kts",
        "ruby": "rb",
        "php": "php",
        "c#": "cs",
        "c++": "cpp hpp",
        "bash": "sh",
        "powershell": "ps1",
        "sql": "sql",
        "terraform": "tf",
        "elixir": "ex",
        "haskell": "hs",
    }.items()
    for ending in endings.split()
}
"""Tag by the ending of a file name."""
_TOOL_NAMES = "|".join(re.escape(name) for name in sorted(_TOOLS, key=len, reverse=True))
_NAMED = defer_regex(
    rf"(?<![\w.-])(?i:{_TOOL_NAMES})(?![\w+#]|\.\w|-\w)"
    r"|(?<![\w.])Go(?= (?:service|code|module|program|version|\d|binary|test|package|project|backend|"
    r"server))(?!\w)"
    rf"|(?<![\w])[\w/-]{{1,300}}\.(?:{'|'.join((*_ENDINGS, *(ending.upper() for ending in _ENDINGS)))})\b"
)
_SECRET = defer_regex(
    r"""\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abprs]|npm|pypi|hf|AKIA|ASIA|AIza|eyJ)[-_A-Za-z0-9]{12,}
      | -----BEGIN
      | \b(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[ _-]?key|access[ _-]?key|
        private[ _-]?key|client[ _-]?secret|
        credentials?|pin(?:\ code)?|cvv|otp|bearer|mot\ de\ passe|passwort|kennwort|contraseña)
        \s*(?:(?:for|of|to)\s+[\w.@-]+(?:\s[\w.@-]+){0,3}\s*)?
        (?:is\b(?!\s+(?:not|no|too|wrong|missing|required|expired|stored|in\b|hashed|never|always|
          the\b|a\b|an\b|kept|set\b|rotated|
        invalid|valid|empty|case|checked|sent|shown|optional|longer|at\ least|refreshed))|
          was\b\s+\S*\d|are\b\s+\S*\d|[:=])\s*\S
      | \b[a-z][a-z0-9+.-]{0,40}://[^\s/:@]+:[^\s/@]+@
      | \b(?:\d[ -]?){13,19}\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONG_RUN = defer_regex(r"(?<![\w/.])[A-Za-z0-9+_=]{20,}(?![\w/])")
_HEX = defer_regex(r"[0-9a-f]{40}")


def _is_random(run: str) -> bool:
    """Whether a long run of letters and digits is no word, path or commit."""
    if _HEX.fullmatch(run):
        return False
    digits = sum(a.isdigit() != b.isdigit() for a, b in pairwise(run))
    cases = sum(a.islower() != b.islower() for a, b in pairwise(run) if a.isalpha() and b.isalpha())
    if cases >= 4:
        return digits >= 2 and digits + cases >= 8 and "_" not in run
    return digits >= 5 and "--" not in run
