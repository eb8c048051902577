"""How many secrets get past the rules, and how often is something taken for one? Measured on labelled texts.

Every text that comes with the package has a place for each secret, or for what only looks like one, and they
are made up from a seed (`made_up`). Three fifths were used to write the rules; the rest was held out and has
changed no rule. A secret counts as missed when a single character of it is left.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from reverie.domain.errors import InvalidInput
from reverie.domain.secrets import Redactor, Span
from reverie.evals.recall import metrics
from reverie.evals.rules.synthetic_secrets import LOOK_ALIKES, SECRETS

FILE = "secrets.jsonl"
"""The texts in the package."""

Which = Literal["develop", "heldout"]
SETS: Mapping[Which, str] = {"develop": "development", "heldout": "held out"}
"""The two parts of them, with their names in the report."""

_FIELDS = ("id", "set", "kind", "seed", "text")
_COLUMNS = ("texts", "secrets", "missed", "recall", "95 %", "left, %", "too much, %")
_PLACE = re.compile(r"«(\w+)»|‹(\w+)›")
_TURN = 2_000
_SAVES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """A text and where secrets stand in it.

    Attributes:
        id: Its name, such as `s-aws-03`.
        set: Whether it may be looked at when rules are written.
        kind: Of which sort the secrets are, or what it is that only looks like one.
        text: The text.
        spans: From where to where each secret goes; none for a look-alike.
    """

    id: str
    set: Which
    kind: str
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretVerdict:
    """What the rules made of a text.

    Attributes:
        labelled: The text.
        found: What was redacted.
    """

    labelled: LabelledText
    found: tuple[Span, ...]

    @property
    def covered(self) -> frozenset[int]:
        """The places of all characters that were redacted."""
        return frozenset(place for span in self.found for place in range(span.start, span.end))

    @property
    def missed(self) -> list[tuple[int, int]]:
        """The secrets of which at least one character is left."""
        covered = self.covered
        return [span for span in self.labelled.spans if not covered.issuperset(range(*span))]

    @property
    def left(self) -> int:
        """How many characters of secrets are left."""
        covered = self.covered
        return sum(place not in covered for span in self.labelled.spans for place in range(*span))

    @property
    def too_much(self) -> int:
        """How many characters that are no part of a secret were redacted."""
        secret = {place for span in self.labelled.spans for place in range(*span)}
        return len(self.covered - secret)


def load_shipped() -> tuple[LabelledText, ...]:
    """The texts that come with the package, with their secrets made up."""
    file = resources.files("reverie.evals") / "data" / FILE
    return _parse_texts(file.read_text(encoding="utf-8"), name=FILE)


def read_texts(path: str | Path) -> tuple[LabelledText, ...]:
    """The texts of a file of your own: one JSON object a line with id, set, kind, seed and text.

    In the text, `«maker»` stands for a secret and `‹maker›` for what only looks like one, by the names in
    `reverie.evals.rules.synthetic_secrets`; a text without `«…»` is one in which nothing may be found.

    Raises:
        InvalidInput: it cannot be read, or a line is of another form; the message says which.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{str(path)!r} cannot be read: {why}") from None
    return _parse_texts(text, name=str(path))


def _parse_texts(text: str, *, name: str) -> tuple[LabelledText, ...]:
    found = [
        _parse_labelled(line, at=f"{name}, line {number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not found:
        raise InvalidInput(f"{name} has no texts: write one JSON object a line")
    often, count = Counter(each.id for each in found).most_common(1)[0]
    if count > 1:
        raise InvalidInput(f"{name} has {count} texts {often!r}: give each an id of its own")
    return tuple(found)


def _parse_labelled(line: str, *, at: str) -> LabelledText:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{at} is not JSON: {error.msg}") from None
    if not isinstance(fields, dict) or sorted(fields) != sorted(_FIELDS):
        raise InvalidInput(f"{at} is no labelled text: it needs {', '.join(_FIELDS)} and nothing else")
    if fields["set"] not in SETS:
        raise InvalidInput(f"{at} is in the set {fields['set']!r}: it is one of {', '.join(SETS)}")
    if not isinstance(fields["seed"], int) or not all(
        isinstance(fields[name], str) and fields[name].strip() for name in ("id", "kind", "text")
    ):
        raise InvalidInput(
            f"{at} is no labelled text: seed is a number, the rest are texts that are not empty"
        )
    text, spans = fill_template(fields["text"], Random(fields["seed"]))
    return LabelledText(id=fields["id"], set=fields["set"], kind=fields["kind"], text=text, spans=spans)


def fill_template(template: str, rng: Random) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A text with what stands in its places made up, and from where to where the secrets in it go.

    A place with a name that is none of a maker stays as it is: it may be a quotation in French.

    Args:
        template: The text, with `«maker»` and `‹maker›`.
        rng: Where chance comes from.
    """
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    size = place = 0
    for match in _PLACE.finditer(template):
        secret, other = match.groups()
        maker = SECRETS.get(secret) if secret else LOOK_ALIKES.get(other)
        if maker is None:
            continue
        before, made = template[place : match.start()], maker(rng)
        pieces += [before, made]
        size += len(before)
        if secret:
            spans.append((size, size + len(made)))
        size += len(made)
        place = match.end()
    return "".join([*pieces, template[place:]]), tuple(spans)


def judge_texts(texts: Iterable[LabelledText]) -> list[SecretVerdict]:
    """What the built-in rules make of each text."""
    redactor = Redactor()
    return [SecretVerdict(labelled=each, found=redactor.find(each.text)) for each in texts]


# -- the report ------------------------------------------------------------------------------------------


def main_secrets(
    path: str | Path | None = None,
    *,
    show_errors: bool = False,
    speed: bool = False,
    out: str | Path | None = None,
    console: Console | None = None,
) -> int:
    """Judge texts, print how the rules did and, if asked to, write it as JSON.

    Args:
        path: A file of your own texts; None for those that come with the package.
        show_errors: Also print every text of which something was missed or wrongly redacted.
        speed: Also measure how long it takes, beside a save that is durable.
        out: Where to write the figures as JSON; None for nowhere.
        console: Where to print.

    Returns:
        The exit code, 0.

    Raises:
        InvalidInput: something given is wrong; nothing was measured.
    """
    console = console or Console()
    file = None if out is None else Path(out).expanduser()
    if file is not None and not file.absolute().parent.is_dir():
        raise InvalidInput(f"{file}: there is no such folder to write it to")
    results = judge_texts(load_shipped() if path is None else read_texts(path))
    measured = measure_times() if speed else {}
    _render(results, console, show_errors=show_errors, measured=measured)
    if file is not None:
        text = json.dumps(
            to_json(results) | ({"speed": measured} if measured else {}), ensure_ascii=False, indent=1
        )
        try:
            file.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None
    return 0


def to_json(results: Sequence[SecretVerdict]) -> dict[str, Any]:
    """The figures of each set and kind; no text and nothing of a secret."""
    return {
        "versions": {"reverie": version("reverie")},
        "sets": {
            which: {
                "secrets": {
                    kind: _compute_figures(found) for kind, found in _group_by_kind(part, secret=True)
                },
                "look-alikes": {
                    kind: {"texts": len(found), "redacted": sum(bool(each.found) for each in found)}
                    for kind, found in _group_by_kind(part, secret=False)
                },
            }
            for which, part in _iterate_parts(results)
        },
    }


def measure_times() -> dict[str, float]:
    """How long it takes to redact a turn of 2,000 characters, and to save one durably; in milliseconds."""
    from reverie.memory import Memory  # here: the rest of the module needs no store

    texts = [_build_prose(number) for number in range(_SAVES)]
    redactor = Redactor()
    redactor.text(_build_prose(_SAVES))  # compiles what it needs
    began = time.perf_counter()
    for text in texts:
        redactor.text(text)
    redacting = (time.perf_counter() - began) / len(texts)
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        session = memory.session("speed")
        session.add("user", "first")
        began = time.perf_counter()
        for text in texts:
            session.add("user", text)
        saving = (time.perf_counter() - began) / len(texts)
    return {"redact_ms": redacting * 1000, "save_ms": saving * 1000, "ratio": redacting / saving}


def _build_prose(number: int) -> str:
    """A turn of conversation without a secret, none like another."""
    rng = Random(number)
    plain = [
        fill_template(each, rng)[0]
        for each in (
            "I looked at the deploy of ‹version› again; the token budget is fine now.",
            "Anna says that the order has arrived, and that the key question is who pays for it.",
            "See https://github.com/atlas/api/pull/1234 and src/atlas/worker.py, line 88.",
            "We could pass the settings along instead, which would make the tests a good deal shorter.",
            "My flight leaves at 10:40 on 2026-03-04, and I would like a seat at the window.",
        )
    ]
    text = ""
    while len(text) < _TURN:
        text += rng.choice(plain) + " "
    return text[:_TURN].strip()


def _iterate_parts(results: Sequence[SecretVerdict]) -> Iterator[tuple[Which, list[SecretVerdict]]]:
    for which in SETS:
        if part := [each for each in results if each.labelled.set == which]:
            yield which, part


def _group_by_kind(
    results: Sequence[SecretVerdict], *, secret: bool
) -> list[tuple[str, list[SecretVerdict]]]:
    kinds: dict[str, list[SecretVerdict]] = {}
    for each in results:
        if bool(each.labelled.spans) == secret:
            kinds.setdefault(each.labelled.kind, []).append(each)
    return list(kinds.items())


def _compute_figures(found: Sequence[SecretVerdict]) -> dict[str, float]:
    secrets = sum(len(each.labelled.spans) for each in found)
    characters = sum(end - start for each in found for start, end in each.labelled.spans)
    others = sum(len(each.labelled.text) for each in found) - characters
    return {
        "texts": len(found),
        "secrets": secrets,
        "missed": sum(len(each.missed) for each in found),
        "left_share": sum(each.left for each in found) / characters if characters else 0.0,
        "too_much_share": sum(each.too_much for each in found) / others if others else 0.0,
    }


def _render(
    results: Sequence[SecretVerdict], console: Console, *, show_errors: bool, measured: Mapping[str, float]
) -> None:
    """Print the figures: a table on a terminal, plain lines with tabs where the output is piped."""
    rows = list(_iterate_rows(results))
    remarks = list(_iterate_remarks(results, measured)) + (
        list(_iterate_errors(results)) if show_errors else []
    )
    if not console.is_terminal:
        lines = ["\t".join(("", *_COLUMNS)), *("\t".join(row) for row in rows), *remarks]
        console.file.write("\n".join(lines) + "\n")  # past the console, which would make spaces of the tabs
        return
    table = Table(box=None, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in remarks:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _iterate_rows(results: Sequence[SecretVerdict]) -> Iterator[tuple[str, ...]]:
    for which, part in _iterate_parts(results):
        kinds = _group_by_kind(part, secret=True)
        yield _format_row(SETS[which], [each for _, found in kinds for each in found])
        for kind, found in kinds:
            yield _format_row(f" {kind}", found)


def _format_row(name: str, found: Sequence[SecretVerdict]) -> tuple[str, ...]:
    told = _compute_figures(found)
    secrets, missed = int(told["secrets"]), int(told["missed"])
    return (
        name,
        str(int(told["texts"])),
        str(secrets),
        str(missed),
        *_format_share(secrets - missed, secrets),
        f"{100 * told['left_share']:.2f}",
        f"{100 * told['too_much_share']:.2f}",
    )


def _format_share(part: int, whole: int) -> tuple[str, str]:
    ends = metrics.compute_wilson_interval(part, whole)
    return ("-", "-") if ends is None else (f"{part / whole:.3f}", f"{ends[0]:.2f}–{ends[1]:.2f}")


def _iterate_remarks(results: Sequence[SecretVerdict], measured: Mapping[str, float]) -> Iterator[str]:
    for which, part in _iterate_parts(results):
        kinds = _group_by_kind(part, secret=False)
        everything = [("look-alikes", [each for _, found in kinds for each in found]), *kinds]
        for kind, found in everything if kinds else ():
            wrong = sum(bool(each.found) for each in found)
            rate, ends = _format_share(wrong, len(found))
            indent = "" if kind == "look-alikes" else " "
            yield f"{indent}{SETS[which]}, {kind}: {wrong} of {len(found)} redacted ({rate}, 95 % {ends})"
    if measured:
        yield (
            f"redacting a turn of {_TURN:,} characters: {measured['redact_ms']:.3f} ms; "
            f"adding it durably: {measured['save_ms']:.2f} ms; ratio {measured['ratio']:.4f}"
        )


def _iterate_errors(results: Sequence[SecretVerdict]) -> Iterator[str]:
    for each in results:
        if each.missed:
            yield f"missed ({each.labelled.id}): {_quote_redacted(each)}"
    for each in results:
        if each.found and not each.labelled.spans:
            yield f"redacted wrongly ({each.labelled.id}): {_quote_redacted(each)}"


def _quote_redacted(each: SecretVerdict) -> str:
    return repr(Redactor().text(each.labelled.text))[:300]
