"""Check that the specifics of a model's statement are in the texts that it cites.

Specifics are numbers, dates, times, addresses, code, names, quotations and negation. The words are compared by form.
Whether the texts mean what the statement says is a question for a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, tzinfo

from reverie.domain.conversation import Turn
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import split_sentences
from reverie.domain.record import UNTRUSTED
from reverie.domain.text.dates import find_dates, get_local_day, shift_day
from reverie.domain.text.escaping import NOTICE, WRITERS, escape_output, unquoted_text
from reverie.domain.text.specifics import FRAME, extract_specifics, stem_word
from reverie.domain.text.tokenizer import find_language

ANCHORED_SHARE = 0.4
"""Share of a statement's words that the cited texts must have."""

_WORD = defer_regex(r"[^\W_]+(?:['’][^\W\d_]+)?")
_MARKER = defer_regex(r"\s*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|>\s*)*")
_QUOTATION = defer_regex(r"[\"“„«»]([^\"“”„«»\n]{3,300})[\"“”»«]")
_NAME = defer_regex(r"(?<=[\w,] )[A-Z][^\W\d_]{2,}")
_BEGINNING = 4  # letters of a name that are compared: "Ghanaian" and "Ghana" are the same
_NUMBER = defer_regex(r"\S*\d\S*")
_DAY_OF_MONTH = defer_regex(r"\b([12]?\d|3[01])(?:st|nd|rd|th|\.)?(?![\w:%])")
_AMOUNT = defer_regex(r"\d\S* \D+")
_YEAR = defer_regex(r"(?:19|20)\d\d")
_MAX_DAYS = 92
_SOME_DAY = date(2001, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Text that may support a statement.

    Attributes:
        text: The speaker's own words.
        at: When it was said.
    """

    text: str
    at: datetime


def collect_evidence(turns: Iterable[Turn], *, only_owner: bool = False) -> list[Evidence]:
    """Return the speakers' own words in some turns.

    Results of tools, text that is based on them, quotations and remembered text are no evidence.

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


def find_unsaid(
    statement: str,
    evidence: Sequence[Evidence],
    *,
    least: float = ANCHORED_SHARE,
    context: Sequence[Evidence] = (),
    replaced: str = "",
    zone: tzinfo = UTC,
) -> str:
    """Return why the evidence of a statement does not say it, in words for a person and a model; empty if it does.

    It lacks specifics or most words of the statement, or it denies what the statement affirms, or the reverse.

    Args:
        statement: One line that a model proposes.
        evidence: The evidence that it cites.
        least: Share of its words that the evidence must have, 0 to 1.
        context: Other known text, such as the rest of the conversation. It may supply names.
        replaced: The statement that it replaces, whose specifics it may keep.
        zone: Time zone of the speakers.

    >>> said = [Evidence(text="I moved to Lisbon yesterday. I don't eat fish.", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> find_unsaid("Moved to Lisbon on 2026-03-01", said), find_unsaid("Eats fish", said)
    ('', 'the turns deny: eat')
    >>> find_unsaid("Moved to Porto", said)
    'no cited turn says: porto'
    """
    if reason := find_injection(statement):
        return reason
    if not evidence:
        return "no turn is cited that may be evidence"
    text = _MARKER.sub("", statement, count=1)
    if replaced:
        evidence = [*evidence, Evidence(text=_MARKER.sub("", replaced, count=1), at=evidence[0].at)]
    said, _ = _join_evidence(evidence)
    around, known = _join_evidence([*evidence, *context])
    missing = _list_unknown_values(text, said, around, evidence, zone) or _list_unknown_names(
        text, around, known
    )
    if missing or (reason := _find_changed_negation(text, said)):
        return _say_missing(missing) or reason
    own = extract_content(text)
    unknown = [word for word in own if not is_among(word, known)]
    is_known = len(own) - len(unknown) >= max(
        least * len(own), not find_dates(text, _SOME_DAY, relative=False)
    )
    return "" if is_known else _say_missing(unknown or [text])


def find_lost(statement: str, text: str, *, least: float = 1.0) -> list[str]:
    """Return what a text does not tell of a statement: its specifics, what it denies, and its words.

    Args:
        statement: The statement, of one or several lines.
        text: The text that is to take its place.
        least: Share of the words that the text must have, 0 to 1.

    >>> find_lost("Likes tea at 5 pm", "Likes green tea")
    ['17:00']
    """
    own, told = extract_specifics(statement), extract_specifics(text)
    words, known = extract_content(statement), extract_content(text)
    unknown = {
        each for each in words if not (is_among(each, known) or (not each.isascii() and each in told.wording))
    }
    lost = {*find_new_specifics([text], statement), *(f"not {each}" for each in own.denied - told.denied)}
    lost |= {f"{each}, affirmed" for each in (own.affirmed & told.denied) - told.affirmed}
    return sorted(lost if len(words) - len(unknown) >= least * len(words) else lost | unknown)


def find_new_specifics(sources: Iterable[str], text: str) -> list[str]:
    """Return the numbers, times, addresses, code, units and names of a text that no source has.

    >>> find_new_specifics(["Ada's port is 80", "Ada is from Oslo"], "Ada from Oslo uses port 81")
    ['81']
    """
    joined = "\n".join(sources)
    found = extract_specifics(text).list_new_values(extract_specifics(joined))
    if find_language(text) != "de":  # German capitalizes every noun
        names = {name.casefold() for name in _NAME.findall(text)}
        found |= {name for name in names if name[:_BEGINNING] not in joined.casefold()}
    return sorted(found)


def find_injection(statement: str) -> str:
    """Return why a line must not be shown to a model as a memory; empty if it may."""
    if "\n" in statement.strip() or escape_output(statement) != statement:
        return "it has line breaks, hidden characters or marks of a prompt"
    return (
        "it gives the assistant orders about its instructions" if WRITERS["order"].search(statement) else ""
    )


def _join_evidence(evidence: Sequence[Evidence]) -> tuple[str, frozenset[str]]:
    """Return the text of some evidence, and its words in every form in which they are compared."""
    text = "\n".join(WRITERS["no"].sub(" ", each.text) for each in evidence)
    known = extract_specifics(text)
    return text, extract_content(text) | known.affirmed | known.denied


def _list_unknown_values(
    text: str, said: str, around: str, evidence: Sequence[Evidence], zone: tzinfo
) -> set[str]:
    """Return the values and quotations of a statement that the evidence lacks; what has no digit, also its context."""
    known = extract_specifics(said)
    missing = {
        each
        for each in extract_specifics(text).list_new_values(known)
        if not _AMOUNT.fullmatch(each)
        and not (_YEAR.fullmatch(each) and each[2:] in known.values)  # "in the summer of 98"
        and (each[0].isdigit() or each.casefold() not in around.casefold())
    }
    if missing:
        days = (_list_days(each.text, get_local_day(each.at, zone)) for each in evidence)
        missing.difference_update(*days)
    folded = _fold(said)
    return missing | {words for words in _QUOTATION.findall(text) if _fold(words) not in folded}


def _list_unknown_names(text: str, said: str, words: frozenset[str]) -> set[str]:
    """Return the names of a statement that the evidence lacks."""
    wording = extract_specifics(said).wording
    names = extract_specifics(WRITERS["owner"].sub(" ", _remove_dates(text))).names
    single = {word for name in names for word in name.split()} - FRAME
    return {each for each in single if not is_among(each, words) and f" {each} " not in wording}


def _find_changed_negation(text: str, said: str) -> str:
    """Return why a statement affirms what the evidence denies, or the reverse; empty if it does not."""
    stated, known = extract_specifics(text), extract_specifics(said)
    if stated.is_negative:
        return "" if known.is_negative else "it denies what the turns do not deny"
    sources = _select_sources(text, split_statements(said))
    denials = [extract_specifics(each).is_negative for each in sources]
    flipped = (stated.affirmed & known.denied) - known.affirmed - stated.denied
    return f"the turns deny: {', '.join(sorted(flipped))}" if flipped and all(denials) else ""


def _list_days(text: str, day: date) -> Iterator[str]:
    """Yield the day of a text and the days, months and years that it names, in the forms of `Specifics.values`."""
    spans = [(day, day, False), *((each.start, each.end, each.yearly) for each in find_dates(text, day))]
    for start, end, is_yearly in spans:
        for number in range(min((end - start).days, _MAX_DAYS) + 1):
            named = shift_day(start, number)
            for year in range(named.year - is_yearly, named.year + is_yearly + 1):
                yield from (f"{year}-{named:%m-%d}", f"{year}-{named:%m}", f"{named:%m-%d}", f"{year}")
    for number in _DAY_OF_MONTH.findall(text):  # "on the 29th"
        for near in (day.replace(day=1), shift_day(day, 31), shift_day(day, -31)):
            yield from (f"{near:%Y-%m}-{int(number):02d}", f"{near:%Y-%m}", f"{near:%m}-{int(number):02d}")


def _remove_dates(text: str) -> str:
    for mention in reversed(find_dates(text, _SOME_DAY, relative=False)):
        text = f"{text[: mention.at]} {text[mention.stop :]}"
    return text


def _say_missing(values: Iterable[str]) -> str:
    missing = {*values}
    longest = sorted(each for each in missing if not any(each in other for other in missing - {each}))
    return f"no cited turn says: {', '.join(longest)}" if longest else ""


def split_statements(text: str) -> list[str]:
    """Return the sentences of a text, without a bare "no" before them."""
    return split_sentences(WRITERS["no"].sub(" ", text))


def extract_content(text: str) -> frozenset[str]:
    """Return the content words, names and numbers of a line, without dates."""
    said = extract_specifics(WRITERS["owner"].sub(" ", _remove_dates(_MARKER.sub("", text, count=1))))
    return (said.affirmed | said.denied | {*filter(_NUMBER.fullmatch, said.values)}) - FRAME


def is_among(word: str, words: frozenset[str]) -> bool:
    """Return whether a word, or another form of it, is among some words."""
    if word in words or stem_word(word) in words:
        return True
    least = max(4, -(-len(word) * 6 // 10))
    return not any(map(str.isdigit, word)) and any(
        word[:least] == each[:least] and len(each) <= least + 3 for each in words if len(each) >= least
    )


def _select_sources(text: str, sentences: Sequence[str]) -> list[str]:
    """Return the sentences with most words of a statement."""
    words = extract_content(text)
    contents = [extract_content(sentence) for sentence in sentences]
    counts = [sum(is_among(word, content) for word in words) for content in contents]
    least = max(1, 0.6 * max(counts, default=0))
    return [part for part, count in zip(sentences, counts, strict=True) if count >= least] or list(sentences)


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
