"""Check that what a model writes down stands in the turns that it cites.

A statement is grounded if its numbers, dates, names, addresses and code stand in the evidence, most of its other
words too, and if the sentences it comes from say it: they ask nothing, guess nothing, and deny what it denies. Words
are compared by form and not by meaning, so a model has to keep near the words of the turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from itertools import pairwise

from reverie.domain.conversation import Turn
from reverie.domain.provenance import extract_content_words
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.specifics import NEGATIONS, Specifics, extract_specifics, stem_word
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.text.escaping import NOTICE, break_marks, strip_invisible, unquoted_text
from reverie.domain.text.relative_dates import get_local_day
from reverie.domain.word_lists import parse_word_set

KNOWN_SHARE = 0.65
"""The share of a statement's words that its evidence must have."""

ANCHORED_SHARE = 0.3
"""The share of its words that must stand in the evidence itself, where some may come from its context."""

_SENTENCE_END = re.compile(r"(?<=[.!?;…])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_MARKER = re.compile(r"\s*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|>\s*)*")
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|might|possibly|probably|considering|thinking (?:about|of)|not sure|unsure|undecided"
    r"|wonder(?:ing)?|would (?:be|love|like)|wish|if|whether|unless|suppose|imagine|hypothetically|kidding|joking|joke"
    r"|vielleicht|eventuell|möglicherweise|wahrscheinlich|überlege|könnte|falls|wenn|ob|würde|wäre|scherz"
    r"|quizás?|tal vez|a lo mejor|podría|pensando en|si|ojalá|broma"
    r"|peut-être|pourrait|envisage|forse|magari|potrebbe|talvez|poderia)\b",
    re.IGNORECASE,
)
_PASSIVE = re.compile(r"\b(?:by|von|vom|por|par|da|from|to|an|a|zu)\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|ignoriere?|vergiss|ignora|olvida|ignorez|oublie)\b.{0,60}"
    r"\b(?:instructions?|rules?|prompts?|guidelines|safety|anweisungen|regeln|instrucciones|reglas|règles)\b"
    r"|\b(?:system prompt|developer mode|jailbreak)\b|\byou are now\b",
    re.IGNORECASE,
)
ENDED_SHARE = 0.4
"""The share of a statement's words that a sentence must have to end it."""

_ENDED = re.compile(
    r"\b(?:no longer|any ?more|used to|stopped|quit|ended|over|finished|done with|cancel\w*|sold|left|gone|scrap\w*"
    r"|remove\w*|delete\w*|drop(?:ped)?|obsolete|outdated|wrong|broke up|closed|resigned|resolved|fixed|died|shut down"
    r"|nicht mehr|kein\w* mehr|aufgehört|beendet|verkauft|gekündigt|abgesagt|vorbei|erledigt|gestrichen|lösch\w*"
    r"|streich\w*|ya no|dej[óoé] de|vendi[óo]|termin[óo]|borra\w*|elimina\w*|ne .{1,30} plus|non .{1,30} più)\b",
    re.IGNORECASE,
)
_FRAME = parse_word_set(
    """
    live work call name named called prefer want need use person people name is was one new now current currently
    nutzer nutzerin benutzer benutzerin person heißt wohnt arbeitet bevorzugt möchte mag hat ist sind wurde wird der die
    das den dem des ein eine einen einem einer und oder mit für von zu zum zur im in am an auf aus bei seit nach bis um
    sie er es ihr ihre sein seine nicht kein keine
    usuario usuaria persona vive trabaja prefiere quiere tiene llama el la los las un una de del al y o en con para por
    su sus que se es son está lo le no
    """
)
"""Words in which third-person statements are framed, and small words of German and Spanish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Text that a statement may rest on.

    Attributes:
        text: The speaker's own words.
        at: When it was said.
    """

    text: str
    at: datetime


def collect_evidence(turns: Iterable[Turn], *, only_owner: bool = False) -> list[Evidence]:
    """Return what the speakers of turns say in their own words.

    Results of tools, what rests on them, quotations and remembered text are no evidence.

    Args:
        turns: The turns.
        only_owner: Whether only the owner's turns count.
    """
    found = []
    for turn in turns:
        if turn.role == "user" and turn.origin == "owner" and NOTICE not in turn.content:
            text = unquoted_text(turn.content)
        elif turn.role == "assistant" and turn.origin not in UNTRUSTED and not only_owner:
            text = turn.content
        else:
            continue
        if text.strip():
            found.append(Evidence(text=text, at=turn.at))
    return found


def find_ungrounded(
    statement: str, evidence: Sequence[Evidence], *, context: Sequence[Evidence] = (), zone: tzinfo = UTC
) -> str:
    """Return what a statement says that its evidence does not.

    Args:
        statement: One line that a model proposes.
        evidence: What it cites.
        context: What the statement may take words from too, such as the line that it changes. The evidence alone has
            to say it.
        zone: Where the speakers' days begin and end.

    Returns:
        What it is, in words for a person and a model; empty when everything is said.

    >>> said = [Evidence(text="I moved to Lisbon yesterday. I don't eat fish.", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> find_ungrounded("Moved to Lisbon on 2026-03-01", said), find_ungrounded("Eats fish", said)
    ('', 'the turns deny: eat')
    >>> find_ungrounded("Moved to Porto", said)
    'no cited turn says: porto'
    """
    if reason := find_injection(statement):
        return reason
    if not evidence:
        return "no turn is cited that may be evidence"
    text = _MARKER.sub("", statement, count=1)
    said, known = _Said(evidence, zone), _Said((*evidence, *context), zone)
    return (
        known.find_unknown_dates(text)
        or known.find_unknown_words(text, least=KNOWN_SHARE)
        or (said.find_unknown_words(text, least=ANCHORED_SHARE) if context else "")
        or said.find_changed_meaning(text)
    )


def find_injection(statement: str) -> str:
    """Return why a line must not be shown to a model as a memory; empty where it may."""
    if (
        "\n" in statement.strip()
        or strip_invisible(statement) != statement
        or break_marks(statement) != statement
    ):
        return "it has line breaks, hidden characters or marks of a prompt"
    return "it gives the assistant orders about its instructions" if _ORDER.search(statement) else ""


class _Said:
    """What the evidence of a statement says."""

    def __init__(self, evidence: Sequence[Evidence], zone: tzinfo) -> None:
        self._days = [get_local_day(each.at, zone) for each in evidence]
        self._evidence = evidence
        self._text = "\n".join(each.text for each in evidence)
        self._sentences = [
            sentence
            for each in evidence
            for part in _SENTENCE_END.split(each.text)
            if (sentence := part.strip())
        ]

    @cached_property
    def _known(self) -> Specifics:
        return extract_specifics(self._text)

    @cached_property
    def _mentions(self) -> list[DateMention]:
        return [
            mention
            for each, day in zip(self._evidence, self._days, strict=True)
            for mention in find_dates(each.text, day)
        ]

    @cached_property
    def _words(self) -> frozenset[str]:
        return _extract_words(self._text)

    def find_unknown_dates(self, text: str) -> str:
        """Return the first date of a statement that no evidence names."""
        for mention in find_dates(text, self._days[-1], relative=False):
            words = text[mention.at : mention.stop].strip()
            if (
                not any(_is_same_time(mention, each) for each in self._mentions)
                and not any(mention.start <= day <= mention.end for day in self._days)
                and not self._has_day_of_month(mention)
                and words.lower() not in self._text.lower()
            ):
                return f"no cited turn says: {words}"
        return ""

    def _has_day_of_month(self, mention: DateMention) -> bool:
        """Whether the evidence names the day of a date soon after it, without the month: "on the 29th"."""
        number = re.compile(rf"\b{mention.start.day}(?:st|nd|rd|th|\.)?(?![\w:%])")
        return (
            mention.unit == "day"
            and any(abs(mention.start - day) <= timedelta(days=31) for day in self._days)
            and number.search(self._text) is not None
        )

    def find_unknown_words(self, text: str, *, least: float) -> str:
        """Return the names, numbers and words of a statement that no evidence has.

        Args:
            text: The statement.
            least: The share of its words that the evidence must have. Below `KNOWN_SHARE` its names and numbers need
                not stand there.
        """
        for mention in reversed(find_dates(text, self._days[-1], relative=False)):
            text = f"{text[: mention.at]} {text[mention.stop :]}"
        specifics, known = extract_specifics(text), self._known
        names = {word for name in specifics.names for word in name.split()}
        missing = (
            {number for number in specifics.numbers if number.replace(",", "") not in self._numbers}
            | (specifics.addresses - known.addresses)
            | {code for code in specifics.code if code.casefold() not in self._text.casefold()}
            | {name for name in names if name not in _FRAME and not _is_among(name, self._words)}
        )
        missing = {value for value in missing if f" {value.casefold()} " not in known.wording}
        if missing and least >= KNOWN_SHARE:
            return f"no cited turn says: {', '.join(sorted(missing))}"
        words = (_extract_words(text) | names | specifics.numbers) - _FRAME
        unknown = sorted(
            word for word in words if not _is_among(word, self._words) and word not in self._numbers
        )
        if len(words) - len(unknown) < max(least * len(words), 1):
            return f"no cited turn says: {', '.join(unknown) or text}"
        return ""

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(number.replace(",", "") for number in self._known.numbers)

    def find_changed_meaning(self, text: str) -> str:
        """Return where a statement affirms, denies or settles what its evidence does not."""
        specifics = extract_specifics(text)
        denied = {value.removeprefix("not ") for value in self._known.negations}
        if flipped := (specifics.affirmed & denied) - self._known.affirmed - _extract_denied_words(text):
            return f"the turns deny: {', '.join(sorted(flipped))}"
        sources = self._select_sources(text)
        if _has_negation(text) and not any(map(_has_negation, sources)):
            return "it denies what the turns do not deny"
        if not _HEDGE.search(text) and all(_HEDGE.search(source) for source in sources):
            return "the turns say it as a guess, a wish or a condition only"
        if all(source.endswith("?") for source in sources):
            return "the turns ask it, and do not say it"
        return self._find_exchanged_names(text, specifics, sources)

    def _select_sources(self, text: str) -> list[str]:
        """Return the sentences of the evidence that share most words with a statement."""
        words = _extract_words(text)
        shares = [
            (len([w for w in words if _is_among(w, _extract_words(each))]), each) for each in self._sentences
        ]
        most = max((share for share, _ in shares), default=0)
        return [each for share, each in shares if share and share >= 0.6 * most] or self._sentences

    def _find_exchanged_names(self, text: str, specifics: Specifics, sources: Sequence[str]) -> str:
        names = {name for name in specifics.names if " " not in name}
        order = [word for word in map(str.lower, _WORD.findall(text)) if word in names]
        for first, second in pairwise(order):
            for source in sources:
                words = [word for word in map(str.lower, _WORD.findall(source))]
                if words.count(first) != 1 or words.count(second) != 1 or first == second:
                    continue
                a, b = words.index(first), words.index(second)
                between = " ".join(words[b + 1 : a]) if b < a else ""
                if b < a and not _PASSIVE.search(between) and not _PASSIVE.search(text) and between:
                    return f"the turns name {second} before {first}"
        return ""


def _extract_words(text: str) -> frozenset[str]:
    return frozenset(stem_word(word) for word in extract_content_words(text) if not word.isdigit())


def _is_among(word: str, words: frozenset[str]) -> bool:
    """Whether a word, or another form of it, is among words."""
    if word in words or stem_word(word) in words:
        return True
    least = max(4, -(-len(word) * 6 // 10))
    return any(
        word[:least] == each[:least] and len(each) * 6 <= 10 * least for each in words if len(each) >= least
    )


def _is_same_time(mention: DateMention, other: DateMention) -> bool:
    """Whether one of two dates lies within the other."""
    if mention.yearly or other.yearly:
        same = mention.start.month == other.start.month
        return same and (mention.unit != "day" or other.unit != "day" or mention.start.day == other.start.day)
    return (other.start <= mention.start and mention.end <= other.end) or (
        mention.start <= other.start and other.end <= mention.end
    )


def _extract_denied_words(text: str) -> frozenset[str]:
    """Return the stems of the few words after each negation."""
    words = [word.lower() for word in _WORD.findall(text)]
    return frozenset(
        stem_word(each)
        for at, word in enumerate(words)
        if _has_negation(word)
        for each in words[at + 1 : at + 4]
    )


def _has_negation(text: str) -> bool:
    return any(word in NEGATIONS or word.endswith("n't") for word in map(str.lower, _WORD.findall(text)))


def find_added_words(text: str, other: str) -> str:
    """Return the words of a text that another lacks, in their order and with whole dates.

    >>> find_added_words("The port is 5433 since 3 May", "The port is 5432 since 2 May")
    '5433 3 May'
    """
    today = datetime(2000, 1, 1, tzinfo=UTC).date()
    kept: list[str] = []
    at = 0
    dates = {text[each.at : each.stop].strip() for each in find_dates(text, today, relative=False)}
    known = _extract_words(other) | extract_specifics(other).numbers
    for date in sorted(dates, key=text.index):
        place = text.index(date, at) if date in text[at:] else -1
        if place < 0:
            continue
        kept += _select_unknown(text[at:place], known)
        kept += [] if date.lower() in other.lower() else [date]
        at = place + len(date)
    return " ".join((*kept, *_select_unknown(text[at:], known)))


def find_replacement_loss(old: str, new: str) -> str:
    """Return what one line in place of another would leave out without anything in its place.

    >>> find_replacement_loss("Ana lives in Oslo", "Ana lives in Rome")
    ''
    >>> find_replacement_loss("Ana lives in Oslo with her cats, Flip and Flap", "Ana lives in Rome")
    'it would leave out: cat, flap, flip, oslo'
    """
    before, after = _extract_content(old), _extract_content(new)
    dropped = sorted(word for word in before if not _is_among(word, after))
    added = [word for word in after if not _is_among(word, before)]
    if len(dropped) == len(before) or len(dropped) > len(added) + 1:
        return f"it would leave out: {', '.join(dropped)}"
    return ""


def _extract_content(text: str) -> frozenset[str]:
    """Return the words of a line that say something, with its names and numbers."""
    specifics = extract_specifics(_MARKER.sub("", text, count=1))
    return (_extract_words(text) | specifics.numbers) - _FRAME


def _select_unknown(text: str, known: frozenset[str]) -> list[str]:
    """Return the pieces of a text that have a word which is not known."""
    return [
        piece.strip(".,;:!?()")
        for piece in text.split()
        if any(
            not _is_among(word, known) for word in _extract_words(piece) | extract_specifics(piece).numbers
        )
    ]


def find_end(statement: str, evidence: Sequence[Evidence]) -> str:
    """Return why no evidence says that a statement has ceased to hold; empty where some does.

    >>> now = datetime(2026, 3, 2, tzinfo=UTC)
    >>> find_end("- Ana works at Acme", [Evidence(text="Ana doesn't work at Acme any more", at=now)])
    ''
    >>> find_end("- Ana works at Acme", [Evidence(text="Ana works at Acme", at=now)])
    'no turn of the user says that it has ended'
    """
    text = _MARKER.sub("", statement, count=1)
    words = _extract_words(text) | {word for name in extract_specifics(text).names for word in name.split()}
    for each in evidence:
        for sentence in _SENTENCE_END.split(each.text):
            said = _extract_words(sentence)
            shared = sum(_is_among(word, said) for word in words)
            if shared < min(2, len(words)) or shared < ENDED_SHARE * len(words):
                continue
            settled = not sentence.rstrip().endswith("?") and not _HEDGE.search(sentence)
            if settled and (_ENDED.search(sentence) or _has_negation(sentence) != _has_negation(text)):
                return ""
    return "no turn of the user says that it has ended"
