"""Harness of the labelled evaluations: read labelled items, judge them, report the figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from evaluation.output import check_output_file, compute_wilson_interval, print_table, write_json
from reverie.domain.errors import InvalidInput

CHECKOUT_DATA = Path(__file__).resolve().parents[1]
"""The labelled sets in a checkout of the repository. The installed package does not contain them."""


class _Item(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=_Item)
Verdict = TypeVar("Verdict")
Results = Mapping[str, Sequence[Verdict]]
"""Verdicts by the name of their set."""


_HELD_OUT = frozenset({"held out", "heldout"})
"""Names of the sets that whoever writes rules does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Generic[Item, Verdict]):
    """One labelled evaluation: the form of its items, how they are judged, and what is reported.

    Attributes:
        noun: The name of an item, such as `pair`.
        files: The file of each set in the repository, by the name of the set.
        sealed_files: The file of each set that is kept for final figures.
        fields: The fields of an item in a file.
        optional: Fields that an item may have besides; they are for readers, and `parse` does not see them.
        parse: Build an item from its fields; the second argument names the place, for messages.
        judge: Judge one item.
        help: What the command says of itself.
        listed: What `errors` lists, in words.
        columns: The columns of the table.
        rows: The rows of a set, from its name and its verdicts.
        remarks: The lines below the table about a set, likewise.
        errors: The lines that list each wrong verdict.
        summarize: The figures of one set, for JSON.
        describe: One verdict for JSON, which begins with `id`; None to leave the verdicts out.
        group_of: The group of an item, by which a person may select; None for no groups.
        group_name: What a group is called, such as `kind`.
        set_of: The set of an item, where one file has several sets.
        is_failure: Whether a verdict makes the exit code 1.
    """

    noun: str
    files: Mapping[str, str]
    sealed_files: Mapping[str, str] = field(default_factory=dict)
    fields: Sequence[str]
    optional: Sequence[str] = ()
    parse: Callable[[dict[str, Any], str], Item]
    judge: Callable[[Item], Verdict]
    help: str
    listed: str
    columns: Sequence[str]
    rows: Callable[[str, Sequence[Verdict]], Iterable[Sequence[str]]]
    remarks: Callable[[str, Sequence[Verdict]], Iterable[str]] = lambda name, verdicts: ()
    errors: Callable[[Sequence[Verdict]], Iterable[str]]
    summarize: Callable[[Sequence[Verdict]], Any]
    describe: Callable[[Verdict], Mapping[str, Any]] | None = None
    group_of: Callable[[Item], str] | None = None
    group_name: str = "group"
    set_of: Callable[[Item], str] | None = None
    is_failure: Callable[[Verdict], bool] = lambda verdict: False

    def load_set(self, name: str, data: str | Path | None = None) -> tuple[Item, ...]:
        """Read a set of the repository.

        Args:
            name: A name of `files` or `sealed_files`.
            data: The folder with the sets; None for the one in the checkout.

        Raises:
            InvalidInput: the folder has no such file, or the file has another form.
        """
        folder = CHECKOUT_DATA if data is None else Path(data).expanduser()
        file = folder / {**self.files, **self.sealed_files}[name]
        if not file.is_file():
            raise InvalidInput(
                f"{file}: no such file. The labelled {self.noun}s are in the repository, not in the package: "
                "clone it and pass --data CHECKOUT/evaluation, or pass a file of your own"
            )
        return self.read_file(file)

    def read_file(self, path: str | Path) -> tuple[Item, ...]:
        """Read a file with one JSON object a line.

        Raises:
            InvalidInput: the file cannot be read, or a line has another form; the message names it.
        """
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidInput(f"{str(path)!r} cannot be read: {reason}") from None
        items = [
            self._parse_line(line, at=f"{path}, line {number}")
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
        if not items:
            raise InvalidInput(f"{path} has no {self.noun}s: write one JSON object a line")
        item_id, count = Counter(item.id for item in items).most_common(1)[0]
        if count > 1:
            raise InvalidInput(f"{path} has {count} {self.noun}s {item_id!r}: give each its own id")
        return tuple(items)

    def _parse_line(self, line: str, *, at: str) -> Item:
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"{at} is not JSON: {error.msg}") from None
        known = fields.keys() - set(self.optional) if isinstance(fields, dict) else None
        if known != set(self.fields):
            needed = ", ".join(self.fields)
            raise InvalidInput(f"{at} is not a {self.noun}: it needs {needed} and nothing else")
        return self.parse({name: fields[name] for name in self.fields}, at)

    def run(
        self,
        path: str | Path | None = None,
        *,
        data: str | Path | None = None,
        sealed: bool = False,
        group: str | None = None,
        show_errors: bool = False,
        out: str | Path | None = None,
    ) -> int:
        """Judge items, print the figures and, on request, write them as JSON.

        Args:
            path: A file of your own items; None for the sets of the repository.
            data: The folder with the sets; None for the one in the checkout.
            sealed: Judge the sets that are kept for final figures, in place of the others.
            group: Judge only items of this group.
            show_errors: Also print each wrong verdict, but none on sets that are sealed or held out.
            out: The JSON file to write; None for none.

        Returns:
            The exit code: 1 if a verdict is a failure, else 0.

        Raises:
            InvalidInput: an argument is wrong; nothing was judged.
        """
        file = check_output_file(out)
        if path is None:
            names = self.sealed_files if sealed else self.files
            sets = {name: self.load_set(name, data) for name in names}
        else:
            sets = {str(path): self.read_file(path)}
        results = {
            name: [self.judge(item) for item in items] for name, items in self._select(sets, group).items()
        }
        rows = chain.from_iterable(self.rows(*each) for each in results.items())
        remarks = list(chain.from_iterable(self.remarks(*each) for each in results.items()))
        if show_errors:
            shown = {} if sealed else {name: each for name, each in results.items() if name not in _HELD_OUT}
            remarks += self.errors([*chain.from_iterable(shown.values())])
            remarks += [f"not listed: errors in {name}" for name in results if name not in shown]
        print_table(self.columns, rows, remarks)
        write_json(file, self.to_json(results))
        return int(any(self.is_failure(each) for verdicts in results.values() for each in verdicts))

    def _select(self, sets: Mapping[str, Sequence[Item]], group: str | None) -> dict[str, list[Item]]:
        selected: dict[str, list[Item]] = {}
        groups: dict[str, None] = {}
        for name, items in sets.items():
            for item in items:
                item_group = self.group_of(item) if self.group_of is not None else None
                if item_group is not None:
                    groups[item_group] = None
                if group is None or group == item_group:
                    set_name = self.set_of(item) if self.set_of is not None else name
                    selected.setdefault(set_name, []).append(item)
        if not selected:
            raise InvalidInput(f"there is no {self.group_name} {group!r}: use one of {', '.join(groups)}")
        return selected

    def to_json(self, results: Results[Verdict]) -> dict[str, Any]:
        """Return the figures of each set, and each verdict where `describe` says how."""
        document: dict[str, Any] = {
            "versions": {"reverie": version("reverie")},
            "sets": {name: self.summarize(verdicts) for name, verdicts in results.items()},
        }
        if self.describe is not None:
            document[f"{self.noun}s"] = [
                {"id": "", "set": name} | dict(self.describe(each))
                for name, verdicts in results.items()
                for each in verdicts
            ]
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionFigures:
    """Figures of finding something in labelled items.

    Attributes:
        items: How many items there were.
        wanted: How much had to be found in them.
        found: How much was found.
        right: How much of it rightly.
        met: How much of what was wanted was found.
    """

    items: int
    wanted: int
    found: int
    right: int
    met: int

    @property
    def wrong(self) -> int:
        """How much was found wrongly."""
        return self.found - self.right

    @property
    def precision(self) -> float | None:
        """Share of what was found that is right; None if nothing was found."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """Share of what was wanted that was found; None if nothing was."""
        return self.met / self.wanted if self.wanted else None

    def to_dict(self, items: str, wanted: str, found: str) -> dict[str, Any]:
        """Return the figures and their intervals as JSON values, the first three by these names."""
        return {
            items: self.items,
            wanted: self.wanted,
            found: self.found,
            "wrong": self.wrong,
            "precision": self.precision,
            "precision_interval": compute_wilson_interval(self.right, self.found),
            "missed": self.wanted - self.met,
            "recall": self.recall,
            "recall_interval": compute_wilson_interval(self.met, self.wanted),
        }

    def format_cells(self) -> tuple[str, ...]:
        """Return the cells of a row: what was wanted, found and wrong, precision and recall."""
        counts = map(str, (self.wanted, self.found, self.wrong))
        return (*counts, *format_share(self.right, self.found), *format_share(self.met, self.wanted))


def group_rows(
    get_group: Callable[[Verdict], str],
    format_row: Callable[[str, Sequence[Verdict]], tuple[str, ...]],
) -> Callable[[str, Sequence[Verdict]], Iterator[tuple[str, ...]]]:
    """Return a function that yields a row for a set, and below it one for each of several groups.

    Args:
        get_group: Gives the group of a verdict's item.
        format_row: Makes a row of its name and verdicts.
    """

    def iterate_rows(name: str, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, ...]]:
        yield format_row(name, verdicts)
        groups = dict.fromkeys(map(get_group, verdicts))
        for group in groups if len(groups) > 1 else ():
            yield format_row(f" {group}", [each for each in verdicts if get_group(each) == group])

    return iterate_rows


def format_share(part: int, whole: int) -> tuple[str, str]:
    """Format a share and its 95 % interval by Wilson; `-` for both if there is nothing to share."""
    ends = compute_wilson_interval(part, whole)
    return ("-", "-") if ends is None else (f"{part / whole:.3f}", f"{ends[0]:.2f}–{ends[1]:.2f}")


def has_blank(fields: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a field is not a text, or is blank."""
    return not all(isinstance(fields[name], str) and fields[name].strip() for name in names)
