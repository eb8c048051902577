"""Evaluation of secret detection on labelled texts.

Each text has a placeholder for every secret, and for everything that only looks like one. `synthetic_secrets`
fills them from a seed. Three fifths were used to write the rules; the rest was held out and has changed no
rule. A secret is missed if a single character of it is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from evaluation.measures.harness import Evaluation, format_share, has_blank
from evaluation.measures.synthetic_secrets import LOOK_ALIKES, SECRETS
from reverie.domain.errors import InvalidInput
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.secrets.rules import Span

Which = Literal["develop", "heldout"]
SETS: Mapping[str, str] = {"develop": "development", "heldout": "held out"}
"""The two parts of them, with their names in the report."""

_COLUMNS = ("texts", "secrets", "missed", "recall", "95 %", "left, %", "too much, %")
_PLACE = re.compile(r"«(\w+)»|‹(\w+)›")
_REDACTOR = Redactor()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """A text and the positions of its secrets.

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
    """The result of redacting a text.

    Attributes:
        labelled: The text.
        found: What was redacted.
    """

    labelled: LabelledText
    found: tuple[Span, ...]

    @property
    def covered(self) -> frozenset[int]:
        """Positions of all redacted characters."""
        return frozenset(place for span in self.found for place in range(span.start, span.end))

    @property
    def missed(self) -> list[tuple[int, int]]:
        """Secrets with at least one character left."""
        covered = self.covered
        return [span for span in self.labelled.spans if not covered.issuperset(range(*span))]

    @property
    def left(self) -> int:
        """Number of characters of secrets that are left."""
        covered = self.covered
        return sum(place not in covered for span in self.labelled.spans for place in range(*span))

    @property
    def too_much(self) -> int:
        """Number of redacted characters that belong to no secret."""
        secret = {place for span in self.labelled.spans for place in range(*span)}
        return len(self.covered - secret)


def fill_template(template: str, rng: Random) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Fill the placeholders of a text; return it with the spans of its secrets.

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


def judge_text(text: LabelledText) -> SecretVerdict:
    """Apply the built-in rules to a text."""
    return SecretVerdict(labelled=text, found=_REDACTOR.find(text.text))


# -- the evaluation --------------------------------------------------------------------------------------


def _parse(fields: dict[str, Any], at: str) -> LabelledText:
    """Build a labelled text from its template.

    `«maker»` stands for a secret and `‹maker›` for what only looks like one, by the names of
    `synthetic_secrets`. In a text without `«…»` nothing may be found.
    """
    if fields["set"] not in SETS:
        raise InvalidInput(f"{at}: set is {fields['set']!r}; use one of {', '.join(SETS)}")
    if not isinstance(fields["seed"], int) or has_blank(fields, ("id", "kind", "text")):
        raise InvalidInput(f"{at} is not a text: seed must be a number, id, kind and text must not be empty")
    text, spans = fill_template(fields["text"], Random(fields["seed"]))
    return LabelledText(id=fields["id"], set=fields["set"], kind=fields["kind"], text=text, spans=spans)


def _summarize(verdicts: Sequence[SecretVerdict]) -> dict[str, Any]:
    """Return the figures of each kind; no text and nothing of a secret."""
    return {
        "secrets": {kind: _compute_figures(those) for kind, those in _group_by_kind(verdicts, secret=True)},
        "look-alikes": {
            kind: {"texts": len(those), "redacted": sum(bool(each.found) for each in those)}
            for kind, those in _group_by_kind(verdicts, secret=False)
        },
    }


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


def _iterate_rows(name: str, verdicts: Sequence[SecretVerdict]) -> Iterator[tuple[str, ...]]:
    kinds = _group_by_kind(verdicts, secret=True)
    yield _format_row(SETS[name], [each for _, those in kinds for each in those])
    for kind, those in kinds:
        yield _format_row(f" {kind}", those)


def _format_row(name: str, verdicts: Sequence[SecretVerdict]) -> tuple[str, ...]:
    figures = _compute_figures(verdicts)
    secrets, missed = int(figures["secrets"]), int(figures["missed"])
    return (
        name,
        str(int(figures["texts"])),
        str(secrets),
        str(missed),
        *format_share(secrets - missed, secrets),
        f"{100 * figures['left_share']:.2f}",
        f"{100 * figures['too_much_share']:.2f}",
    )


def _iterate_remarks(name: str, verdicts: Sequence[SecretVerdict]) -> Iterator[str]:
    kinds = _group_by_kind(verdicts, secret=False)
    everything = [("look-alikes", [each for _, those in kinds for each in those]), *kinds]
    for kind, those in everything if kinds else ():
        wrong = sum(bool(each.found) for each in those)
        rate, ends = format_share(wrong, len(those))
        indent = "" if kind == "look-alikes" else " "
        yield f"{indent}{SETS[name]}, {kind}: {wrong} of {len(those)} redacted ({rate}, 95 % {ends})"


def _iterate_errors(verdicts: Sequence[SecretVerdict]) -> Iterator[str]:
    for each in verdicts:
        if each.missed:
            yield f"missed ({each.labelled.id}): {_quote_redacted(each)}"
    for each in verdicts:
        if each.found and not each.labelled.spans:
            yield f"redacted wrongly ({each.labelled.id}): {_quote_redacted(each)}"


def _quote_redacted(verdict: SecretVerdict) -> str:
    return repr(_REDACTOR.text(verdict.labelled.text))[:300]


EVALUATION = Evaluation(
    noun="text",
    files={"texts": "secrets.jsonl"},
    fields=("id", "set", "kind", "seed", "text"),
    parse=_parse,
    judge=judge_text,
    help="""Measure how many secrets the rules miss, and how often they redact something else.

    Judges the labelled texts of the repository, or those of FILE: one JSON object a line with id, set
    (develop, heldout), kind, seed and text. A secret is missed if a character of it is left. Recall, and the
    share of look-alikes that were redacted, have Wilson's 95 % interval. "left" is the share of the secrets'
    characters that stayed, "too much" that of the other characters that were redacted.
    """,
    listed="what was missed, and what was redacted wrongly",
    columns=_COLUMNS,
    rows=_iterate_rows,
    remarks=_iterate_remarks,
    errors=_iterate_errors,
    summarize=_summarize,
    set_of=lambda text: text.set,
)
"""The evaluation that `python -m evaluation secrets` runs."""
