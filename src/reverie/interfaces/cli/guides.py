"""Which page of the documentation explains a command or an error. Help and errors name it.

The pages are those of `docs/` in the repository, without the folder and the suffix.
"""

from __future__ import annotations

from collections.abc import Mapping

from reverie.domain import errors

_PAGES: Mapping[str, str] = {
    "tutorial": "remember show list categories tags",
    "how-to/search": "recall embed",
    "how-to/history-and-undo": "archive restore history blame diff undo end",
    "how-to/forget": "purge forget",
    "explanation/security": "vouch redact",
    "explanation/merging": "settle",
    "how-to/prompts": "say context sessions prompt",
    "how-to/chat": "chat",
    "how-to/dreams": "dream review worker feedback model",
    "how-to/mcp": "mcp",
    "how-to/claude-code": "hook connect",
    "how-to/server": "serve token",
    "how-to/pages": "pages page edit append",
    "how-to/edit-by-hand": "watch files",
    "how-to/import-and-export": "export import",
    "how-to/backup": "backup recover rebuild check doctor",
    "how-to/postgresql": "copy store",
    "how-to/measure-recall": "eval",
    "reference/scores": "label pin unpin",
    "reference/folder": "init stats",
    "explanation/limits": "demo",
}

GUIDES: Mapping[str, str] = {name: page for page, names in _PAGES.items() for name in names.split()}
"""Page of each command."""

ERROR_GUIDES: Mapping[type[errors.ReverieError], str] = {
    errors.StoreCorrupt: "how-to/backup",
    errors.StoreIncompatible: "how-to/backup",
    errors.ForgettingUnfinished: "how-to/forget",
    errors.ModelRefused: "how-to/chat",
    errors.ModelUnavailable: "how-to/chat",
    errors.WorkingMemoryFull: "how-to/pages",
}
"""Page of each error whose message needs more than a sentence."""


def name_page(page: str) -> str:
    """Return the path of a page in the repository."""
    return f"docs/{page}.md"
