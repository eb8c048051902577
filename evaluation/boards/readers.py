"""Choice of the reader for a test collection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from evaluation.boards import beam, cranfield, locomo, trec
from evaluation.boards.datasets import Dataset
from reverie.domain.errors import InvalidInput

Format = Literal["auto", "locomo", "beam", "cranfield", "trec"]
FORMATS: tuple[Format, ...] = get_args(Format)

_READERS: dict[str, Callable[[Path], Dataset]] = {
    "locomo": locomo.read,
    "beam": beam.read,
    "cranfield": cranfield.read,
    "trec": trec.read,
}


def read_dataset(path: str | Path, *, format: Format = "auto") -> Dataset:
    """Read a test collection.

    Args:
        path: A file (`locomo`) or a folder (the others; each reader names the files it needs).
        format: The reader; `auto` chooses it by the names of the files.

    Raises:
        InvalidInput: nothing is there, or something in it has another form; the message names the place.
    """
    place = Path(path).expanduser()
    if format not in FORMATS:
        raise InvalidInput(f"format is {format!r}: use one of {', '.join(FORMATS)}")
    if not place.exists():
        raise InvalidInput(f"{place}: no such file or folder")
    return _READERS[_detect_format(place) if format == "auto" else format](place)


def _detect_format(place: Path) -> str:
    if place.is_file():
        return "locomo"
    if (place / "cran.all.1400").exists():
        return "cranfield"
    if (place / "chat.json").exists() or any(place.glob("*/chat.json")):
        return "beam"
    return "trec"
