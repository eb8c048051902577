"""Hook of MkDocs: the site has the files of docs/ and some of the root of the repository.

* `docs/README.md` becomes the home page, with the example of the root's README.
* `CHANGELOG.md`, `ARCHITECTURE.md`, `CONTRIBUTING.md`, `SECURITY.md` and `decisions/` are added below `project/`.
* A link to a file that the site does not have becomes the name of that file in code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ADDED = {
    ROOT / "docs/README.md": "index.md",
    **{
        ROOT / f"{name}.md": f"project/{name}.md"
        for name in ("CHANGELOG", "ARCHITECTURE", "CONTRIBUTING", "SECURITY")
    },
    **{
        file: f"project/decisions/{file.name.replace('README', 'index')}"
        for file in (ROOT / "decisions").glob("*.md")
    },
    ROOT / "scripts/iframe-worker.js": "assets/iframe-worker.js",
}
"""Files beside those of docs/, with their paths in the site."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def make_anchor(title: str, separator: str) -> str:
    """Return the anchor of a heading as GitHub makes it, so that links hold in both."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the root."""
    from mkdocs.structure.files import File

    for source, path in ADDED.items():
        files.append(File.generated(config, path, content=source.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite links of a page to the paths of the site."""
    present = page.file.src_uri
    sources = {path: source for source, path in ADDED.items()}
    source = sources.get(present, ROOT / "docs" / present)
    if present == "index.md":
        markdown = _build_home(markdown)
    return _LINK.sub(lambda match: _rewrite(match, source.parent, Path(present).parent), markdown)


def _build_home(markdown: str) -> str:
    """Return the home page: installation and example of the root's README, then the paths of docs/README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install = readme[readme.index("## Install") : readme.index("## Five ways")]
    return markdown.replace("# Documentation\n", "# Reverie\n", 1) + "\n" + install


def _rewrite(match: re.Match[str], folder: Path, place: Path) -> str:
    mark, title, target, anchor = match[1], match[2], match[3], match[4] or ""
    if not target or "://" in target:
        return match[0]
    file = (folder / target).resolve()
    if not file.exists():
        file = (ROOT / target).resolve()  # a link of the README in the home page
    if file == ROOT / "README.md":
        path = "index.md"
    elif file in ADDED:
        path = ADDED[file]
    elif file.is_relative_to(ROOT / "docs"):
        path = file.relative_to(ROOT / "docs").as_posix()
    else:
        return f"{title} (`{file.relative_to(ROOT).as_posix()}`)"
    return f"{mark}[{title}]({os.path.relpath(path, place)}{anchor})"


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Return a page as it is; raise if it loads anything from another host."""
    if found := re.search(
        r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:[^>]*>|<link[^>]*stylesheet[^>]*https?:[^>]*>", output
    ):
        raise ValueError(f"{page.file.src_uri} needs a network for {found[0]}")
    return output
