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
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import extract_content_words
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.specifics import (
    NEGATIONS,
    NUMBER_WORDS,
    UNITS,
    Specifics,
    extract_specifics,
    stem_word,
)
from reverie.domain.text.calendar_words import MONTHS, WEEKDAYS
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.text.escaping import NOTICE, break_marks, strip_invisible, unquoted_text
from reverie.domain.text.relative_dates import get_local_day
from reverie.domain.word_lists import parse_word_set

KNOWN_SHARE = 0.65
"""The share of a statement's words that its evidence must have."""

ANCHORED_SHARE = 0.6
"""The share of its words that must stand in the evidence itself, where some may come from its context."""

OWNED_SHARE = 0.2
"""The share of the words of a fact that the owner's turns must have, where others' turns are cited too."""

_SENTENCE_END = defer_regex(r"(?<=[.!?;…])\s+|\n+")
_WORD = defer_regex(r"[^\W_]+(?:['’][^\W\d_]+)?")
_MARKER = defer_regex(r"\s*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|>\s*)*")
HEDGE = defer_regex(
    r"\b(?:maybe|perhaps|might|possibly|probably|considering|thinking (?:about|of)|not sure|unsure|undecided"
    r"|wonder(?:ing)?|would (?:be|love|like)|wish|wants|wanted|could|if|whether|unless|suppose"
    r"|imagine|hypothetically|kidding|joking|joke|suggest\w*|propos\w*|rumou?r\w*|allegedly|supposedly|everyone says"
    r"|angeblich|gerüchte?|flurfunk|dicen que|il paraît|on dit que"
    r"|vielleicht|eventuell|möglicherweise|wahrscheinlich|überlege|könnte|falls|wenn|ob|würde|wäre|scherz"
    r"|quizás?|tal vez|a lo mejor|podría|pensando en|si|ojalá|broma"
    r"|peut-être|pourrait|envisage|forse|magari|potrebbe|talvez|poderia)\b",
    re.IGNORECASE,
)
_POLITE = defer_regex(r"\bif (?:you|it) (?:ever|need|want|like|prefer|have)\b[^.;!?]*", re.IGNORECASE)
"""Conditions that a fact does not depend on: "if you need it", "if it ever comes up"."""

_COMPOUND = defer_regex(r"\b\w+[-/]\w+\b")
_INSTEAD = defer_regex(
    r"\b(?:instead of|rather than|statt|anstatt|en vez de|en lugar de|au lieu d[eu])\b", re.IGNORECASE
)
_PASSIVE = defer_regex(r"\b(?:by|von|vom|por|par|da|from|to|an|a|zu)\b", re.IGNORECASE)
_ORDER = defer_regex(
    r"\b(?:ignore|disregard|forget|override|bypass|ignoriere?|vergiss|ignora|olvida|ignorez|oublie)\b.{0,60}"
    r"\b(?:instructions?|rules?|prompts?|guidelines|safety|anweisungen|regeln|instrucciones|reglas|règles)\b"
    r"|\b(?:system prompt|developer mode|jailbreak)\b|\byou are now\b",
    re.IGNORECASE,
)
_OWNER = defer_regex(
    r"\b(?:[ld]['’])?(?:user|owner|nutzer(?:in)?|benutzer(?:in)?|usuari[oa]|utilisat(?:eur|rice)|utente)\b",
    re.IGNORECASE,
)
_OWNER_FIRST = defer_regex(rf"(?:(?:the|der|die|das|el|la|le) )?{_OWNER.pattern}(?!['’]s)", re.IGNORECASE)
_OF_OWNER = defer_regex(r"\b(?:user|owner)['’]s\b", re.IGNORECASE)
_USER = "user"
_SPEAKER = defer_regex(r"\b(?:i|ich|yo|je|io|eu)\b|\bj(?=['’])", re.IGNORECASE)
_FRENCH_DENIAL = defer_regex(r"\b(?:ne |n['’])(?:(?:me|te|se|le|la|les|lui|y|en) )?(\w{4,})", re.IGNORECASE)
_TOGETHER = defer_regex(r"\b(?:and|with|und|mit|y|con|et|avec|e)\b", re.IGNORECASE)
_YES = defer_regex(
    r"^\W*(?:yes|yep|yeah|yup|exactly|correct|sure|right|please do|ja|genau|stimmt|richtig|s[íi]|claro|exacto|oui)\b",
    re.IGNORECASE,
)
_ONCE = defer_regex(
    r"\b(?:used to|formerly|before that|back then|as a (?:kid|child|student)|früher|damals|antes|autrefois)\b",
    re.IGNORECASE,
)
_PAST = defer_regex(
    r"\b(?:used|was|were|had|did|until|ago|\w{2,}ed|quit|war|waren|hatte\w*|ge\w{3,}[nt]|era|fue|había|étai\w+|avait)\b",
    re.IGNORECASE,
)
_FOND = defer_regex(
    r"\b(?:lov|ador|enjoy|lik|favou?rit|want|need|lieb|mag\b|freu|brauch|encant|quer|quier|aim)\w*",
    re.IGNORECASE,
)
_PRAISE = defer_regex(
    r"^\W*(?:oh|ah|yay|wow|great|brilliant|fantastic|wonderful|lovely|perfect|na|super|toll|prima|genial|génial)\b[^.!?]*,",
    re.IGNORECASE,
)
_FIRST_PERSON = defer_regex(
    r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|us|our|ich|mich|mir|mein\w*|wir|uns|unser\w*|yo|m[ií]s?|nosotr[oa]s|nuestr[oa]s?"
    r"|je|j'|moi|m[aeo]n?|mes|nous|notre|nos|io|mi[oae]|miei|noi|eu|meu|minha)\b",
    re.IGNORECASE,
)
_KIN = defer_regex(r"\b(?:my|mein\w*|mi|mon|ma|mio|mia|meu|minha)\s+\w+", re.IGNORECASE)
_OWN_KIN = defer_regex(
    r"(?<!his )(?<!her )(?<!their )(?<!['’]s )\b(?:mum|mom|dad|gran|grandma|grandpa|mama|papa|oma|opa)\b",
    re.IGNORECASE,
)
"""Kin of who speaks: nobody says whose."""

_THIRD_PERSON = defer_regex(
    r"\b(?i:she|he|they|her|his|their|him|them|er|sie|ihr\w*|sein\w*|ella|él|ell[oa]s|sus?|elle|il|ils|elles|leurs?|lei|lui|loro)\b"
    r"|\b[A-ZÀ-Þ]\w+['’]s\b",
)
PASSING = defer_regex(
    r"\b(?:for (?:a|the|\w+) (?:day|week|month|year)s?|for now|this (?:week|month)|until|till|today|tonight"
    r"|für \w+ (?:tage?|wochen?|monate?)|vorerst|heute|bis|por ahora|hoy|hasta|jusqu\w*|aujourd'hui|pour l'instant)\b",
    re.IGNORECASE,
)
_UNIVERSAL = defer_regex(
    r"\b(?:every\w*|all|any\w*|always|alles|alle[ns]?|jede\w*|immer|tod[oa]s?|siempre|cada|tout\w*|tous|chaque|toujours)\b",
    re.IGNORECASE,
)
CLAUSE = defer_regex(r"[,;:]\s+|(?<!\s)\s+(?:but|and|aber|und|pero|mais|et)\s+", re.IGNORECASE)
_NUMBER_WITH_UNIT = defer_regex(r"(?<![\w.])(\d+(?:[.,]\d+)*) ?([^\W\d_]{1,5})\b")
_COUNTS = NUMBER_WORDS | {"one": "1"}
_COUNTED = defer_regex(r"(?<![\w.:])(\d+|[a-z]+) ([^\W\d_]+)(?= ([^\W\d_]+))?", re.IGNORECASE)
_ANSWER = defer_regex(r"(?:^|(?<=[.!?\n]))[^\S\n]*(?:no|nope|nah|nein|non|nee)[,.!;:]\s*", re.IGNORECASE)
_QUESTION = defer_regex(
    r",\s+(?=(?:so |and |but )?(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|has|have|may|what|which"
    r"|who|why|how|when|where|kann|kannst|könntest|soll|sollen|ist|sind|was|wie|wo|wann|warum|wer|puedes|qué|cómo|dónde)\b)",
    re.IGNORECASE,
)
_CALENDAR = frozenset(MONTHS) | frozenset(WEEKDAYS)
DENIALS = NEGATIONS - parse_word_set("stop avoid refuse refuses avoids stops refused stopped avoided")
_FRAME = parse_word_set(
    """
    live work call name named called prefer want need use person people name is was one new now current currently
    nutzer nutzerin benutzer benutzerin person heißt wohnt arbeitet bevorzugt möchte mag hat ist sind wurde wird der die
    das den dem des ein eine einen einem einer und oder mit für von zu zum zur im in am an auf aus bei seit nach bis um
    sie er es ihr ihre sein seine nicht kein keine
    usuario usuaria persona vive trabaja prefiere quiere tiene llama el la los las un una de del al y o en con para por
    su sus que se es son está lo le no
    les des du au aux et ou dans pour avec sur est sont ont ne pas plus il elle qui son sa ses
    """
)
"""Words in which third-person statements are framed, and small words of German, Spanish and French."""

_KINDRED = {
    "mum": "mother", "mom": "mother", "dad": "father", "gran": "grandmother", "grandma": "grandmother",
    "grandpa": "grandfather", "kid": "children", "child": "children", "mama": "mutter", "oma": "großmutter",
    "opa": "großvater", "papa": "vater",
}  # fmt: skip
"""Names of kin, as people use them of their own, with those that others use."""


_ASKED = "the turns ask it, and do not say it"
_GUESSED = "the turns say it as a guess, a wish or a condition only"
_UNCLEAR = (_ASKED, _GUESSED)


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
    statement: str,
    evidence: Sequence[Evidence],
    *,
    context: Sequence[Evidence] = (),
    anchored: float = ANCHORED_SHARE,
    zone: tzinfo = UTC,
) -> str:
    """Return what a statement says that its evidence does not.

    Args:
        statement: One line that a model proposes.
        evidence: What it cites.
        context: What else is known, such as the rest of the conversation: the statement may take its names and words
            from there, but no numbers and dates, and not most of it.
        anchored: The share of its words that the evidence itself must have.
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
    own = _Said(evidence, zone)
    return find_unsaid(
        text, evidence, context=context, anchored=anchored, zone=zone
    ) or own.find_changed_meaning(text)


def is_unclear(
    statement: str, evidence: Sequence[Evidence], *, context: Sequence[Evidence] = (), zone: tzinfo = UTC
) -> bool:
    """Whether a statement that is not grounded is in other words only, or rests on a question or a guess.

    All of its values and names are said, and nothing says the opposite: whoever understands the evidence can tell
    whether it says this.

    >>> said = [Evidence(text="everything i do is by bike", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> is_unclear("Goes by bike", said), is_unclear("Bikes to Porto", said)
    (True, False)
    """
    if find_injection(statement) or not evidence:
        return False
    text = _MARKER.sub("", statement, count=1)
    if find_unsaid(text, evidence, context=context, known=0.0, anchored=0.0, zone=zone):
        return False
    return _Said(evidence, zone).find_changed_meaning(text) in ("", *_UNCLEAR)


def find_unsaid(
    statement: str,
    evidence: Sequence[Evidence],
    *,
    context: Sequence[Evidence] = (),
    replaced: str = "",
    known: float = KNOWN_SHARE,
    anchored: float = ANCHORED_SHARE,
    zone: tzinfo = UTC,
) -> str:
    """Return the dates, values, names and words of a statement that its evidence has not; see `find_ungrounded`.

    Args:
        statement: One line that a model proposes.
        evidence: What it cites.
        context: What else is known.
        replaced: The statement that it replaces, whose words it may keep.
        known: The share of its words that all of this must have.
        anchored: The share of its words that the evidence and the replaced statement must have.
        zone: Where the speakers' days begin and end.
    """
    text = _MARKER.sub("", statement, count=1)
    kept = [Evidence(text=_MARKER.sub("", replaced, count=1), at=evidence[0].at)] if replaced else []
    said = _Said((*evidence, *kept), zone)
    everything = _Said((*evidence, *kept, *context), zone)
    return (
        said.find_unknown_dates(text)
        or said.find_unknown_values(text)
        or everything.find_unknown_names(text)
        or everything.find_unknown_words(text, least=known)
        or said.find_unknown_words(text, least=anchored)
    )


def find_unowned(statement: str, evidence: Sequence[Evidence], *, zone: tzinfo = UTC) -> str:
    """Return why the owner does not say a statement, unless the owner says yes to what others say.

    Args:
        statement: One line that a model proposes.
        evidence: What it cites of the owner's.
        zone: Where the speakers' days begin and end.

    >>> said = [Evidence(text="OK. I'm on ramipril, does that matter?", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> find_unowned("The user takes paracetamol", said), find_unowned("The user takes ramipril", said)
    ('the user does not say it', '')
    """
    if any(_YES.search(each.text) for each in evidence):
        return ""
    said = _Said(evidence, zone)
    return (
        "the user does not say it"
        if said.find_unknown_words(statement, least=OWNED_SHARE)
        else said.find_asked(statement)
    )


def find_unsaid_values(statement: str, evidence: Sequence[Evidence], *, zone: tzinfo = UTC) -> str:
    """Return the dates, numbers, addresses, code and names of a statement that its evidence has not."""
    said, text = _Said(evidence, zone), _MARKER.sub("", statement, count=1)
    return said.find_unknown_dates(text) or said.find_unknown_values(text) or said.find_unknown_names(text)


def find_other_owner(statement: str, evidence: Sequence[Evidence], *, zone: tzinfo = UTC) -> str:
    """Return why a statement says of one person or thing what its evidence says of another; empty where it does not.

    >>> said = [Evidence(text="She's never flown, she says.", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> find_other_owner("User has never flown", said)
    'the turns say it of somebody else'
    """
    return _Said(evidence, zone).find_other_owner(_MARKER.sub("", statement, count=1))


def find_unsaid_universal(statement: str, evidence: Sequence[Evidence]) -> str:
    """Return that a statement holds for all cases where its evidence speaks of one; empty where it does not.

    >>> find_unsaid_universal("Always wants tables", [Evidence(text="A table, please", at=datetime(2026, 3, 2))])
    'no cited turn says: always'
    """
    found = _UNIVERSAL.search(statement)
    if found is None or any(_UNIVERSAL.search(each.text) for each in evidence):
        return ""
    return f"no cited turn says: {found[0].lower()}"


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
    """Contents of the evidence for a statement."""

    def __init__(self, evidence: Sequence[Evidence], zone: tzinfo) -> None:
        self._days = [get_local_day(each.at, zone) for each in evidence]
        self._evidence = evidence
        self._text = "\n".join(_ANSWER.sub("", each.text) for each in evidence)
        self._sentences = [sentence for each in evidence for sentence in split_statements(each.text)]

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
        return _extract_words(self._text) | extract_content(self._text)

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

    def find_unknown_values(self, text: str) -> str:
        """Return the numbers, addresses and code of a statement that no evidence has."""
        specifics, known = extract_specifics(self._remove_dates(text)), self._known
        missing = (
            {number for number in specifics.numbers if number.replace(",", "") not in self._numbers}
            | {time for time in specifics.times - known.times if ":" in time}
            | (specifics.addresses - known.addresses)
            | {code for code in specifics.code if code.casefold() not in self._text.casefold()}
        )
        missing = {value for value in missing if f" {value.casefold()} " not in known.wording}
        return f"no cited turn says: {', '.join(sorted(missing))}" if missing else ""

    def find_unknown_names(self, text: str) -> str:
        """Return the names of a statement that no evidence has."""
        specifics = extract_specifics(_OWNER.sub(" ", self._remove_dates(text)))
        names = {word for name in specifics.names for word in name.split()}
        missing = sorted(
            name
            for name in names - _FRAME
            if not is_among(name, self._words) and f" {name} " not in self._known.wording
        )
        return f"no cited turn says: {', '.join(missing)}" if missing else ""

    def find_unknown_words(self, text: str, *, least: float) -> str:
        """Return the words of a statement that the evidence lacks, where it has less than a share of them."""
        rest = self._remove_dates(text)
        words = extract_content(rest) - DENIALS
        unknown = sorted(
            word
            for word in words
            if not is_among(word, self._words) and word.replace(",", "") not in self._numbers
        )
        known = len(words) - len(unknown)
        if known < least * len(words) or (not known and rest == text):
            return f"no cited turn says: {', '.join(unknown) or text}"
        return ""

    def _remove_dates(self, text: str) -> str:
        for mention in reversed(find_dates(text, self._days[-1], relative=False)):
            text = f"{text[: mention.at]} {text[mention.stop :]}"
        return text

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(number.replace(",", "") for number in self._known.numbers)

    def find_changed_meaning(self, text: str) -> str:
        """Return where a statement affirms, denies or settles what its evidence does not."""
        specifics = extract_specifics(text)
        lasting = [
            part for each in self._sentences for part in CLAUSE.split(each) if not PASSING.search(part)
        ]
        denied = extract_specifics("\n".join(lasting)).denied
        if flipped := (specifics.affirmed & denied) - self._known.affirmed - _extract_denied_words(text):
            return f"the turns deny: {', '.join(sorted(flipped))}"
        sources = self._select_sources(text)
        if has_negation(text) and not any(map(has_negation, sources)):
            return "it denies what the turns do not deny"
        affirmed = _extract_words(_FRENCH_DENIAL.sub(" ", text))
        if affirmed & {stem_word(verb.lower()) for verb in _FRENCH_DENIAL.findall("\n".join(sources))}:
            return "the turns deny it"
        if not _PAST.search(text) and all(map(_ONCE.search, sources)):
            return "the turns say that it was so once"
        if _FOND.search(text) and all(_PRAISE.search(each) and _FOND.search(each) for each in sources):
            return "the turns mean the opposite"
        if reason := (
            self.find_other_owner(text)
            or self._find_other_units(text)
            or self._find_exchanged_names(text, sources)
        ):
            return reason
        if not HEDGE.search(text) and all(HEDGE.search(_POLITE.sub("", source)) for source in sources):
            return _GUESSED
        return self.find_asked(text)

    def find_asked(self, text: str) -> str:
        """Return whether the evidence only asks what a statement says."""
        is_asked = all(source.endswith("?") for source in self._select_sources(text))
        return _ASKED if is_asked else ""

    def find_other_owner(self, text: str) -> str:
        """Return whether the evidence says of somebody else what a statement says."""
        specifics = extract_specifics(text)
        clauses = self._select_sources(
            text, [part for each in self._sentences for part in CLAUSE.split(each)]
        )
        named = extract_marks(specifics)
        is_about_others = all(map(_is_about_others, clauses))
        if (
            (_OWNER_FIRST.match(text) and all(_is_about_another(clause, text) for clause in clauses))
            or (
                _OWNER.search(text)
                and is_about_others
                and not any(named & extract_marks(extract_specifics(clause)) for clause in clauses)
            )
            or (
                named
                and is_about_others
                and not any(name in self._text.lower() for name in named)
                and _KIN.search(self._text)
            )
        ):
            return "the turns say it of somebody else"
        return self._find_other_subject(text, specifics)

    def _select_sources(self, text: str, parts: Sequence[str] = ()) -> list[str]:
        """Return the sentences of the evidence, or other parts of it, that share most words with a statement."""
        words, parts = extract_content(text), parts or self._sentences
        contents = [extract_content(part) for part in parts]
        counts = [sum(is_among(word, content) for word in words) for content in contents]
        least = max(1, 0.6 * max(counts, default=0))
        return [part for part, count in zip(parts, counts, strict=True) if count >= least] or list(parts)

    def _find_other_subject(self, text: str, specifics: Specifics) -> str:
        """Return whether a statement says of one name or value what a clause says of another."""
        marks = extract_marks(specifics)
        clauses = [
            clause for sentence in self._sentences for clause in CLAUSE.split(self._remove_dates(sentence))
        ]
        marked = [(extract_marks(extract_specifics(clause)), _extract_words(clause)) for clause in clauses]
        if not any(there & marks for there, _ in marked):
            return ""
        own = frozenset(word for there, said in marked if there & marks for word in said)
        words = {
            word
            for word in _extract_words(self._remove_dates(text)) - marks - _FRAME
            if is_among(word, self._words)
        }
        stems = _extract_words(text)

        def is_shared(there: frozenset[str]) -> bool:
            return any(is_among(mark, stems) for mark in there)

        for there, said in marked:
            if any(not mark[0].isdigit() for mark in there) and not there & marks and not is_shared(there):
                taken = sorted(word for word in words if is_among(word, said) and not is_among(word, own))
                if taken and 2 * len(taken) > len(words):
                    return f"the turns say it of {', '.join(sorted(there))}: {', '.join(taken)}"
        return ""

    def _find_other_units(self, text: str) -> str:
        """Return the first number of a statement that has another unit, or another thing that has another number."""
        counted = _count_things(self._remove_dates(self._text))
        for thing, numbers in _count_things(self._remove_dates(text)).items():
            if thing in counted and not numbers & (counted[thing] | self._numbers):
                return f"the turns say {', '.join(sorted(counted[thing]))} {thing}"
        known = dict(_NUMBER_WITH_UNIT.findall(self._text))
        for number, unit in _NUMBER_WITH_UNIT.findall(text):
            other = known.get(number, unit)
            if other != unit and _is_unit(unit) and _is_unit(other):
                return f"the turns say {number} {other}"
        return ""

    def _find_exchanged_names(self, text: str, sources: Sequence[str]) -> str:
        """Return two names that a statement has in the other order than a sentence; the speaker is one of them."""
        names = _extract_people(text) | {_USER}
        order = [
            word for word in _list_words(_OWNER.sub(f" {_USER} ", _OF_OWNER.sub("", text))) if word in names
        ]
        for first, second in pairwise(order):
            for source in sources:
                words = _list_words(_SPEAKER.sub(f" {_USER} ", source))
                if words.count(first) != 1 or words.count(second) != 1 or first == second:
                    continue
                a, b = words.index(first), words.index(second)
                between = " ".join(words[b + 1 : a]) if b < a else ""
                is_mutual = b + 3 >= a and _TOGETHER.search(between)
                if between and not is_mutual and not _PASSIVE.search(between) and not _PASSIVE.search(text):
                    return f"the turns name {second} before {first}"
        return ""


def _list_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def split_statements(text: str) -> list[str]:
    """Return the sentences of a text; of one that ends in a question, the statement before it by itself."""
    sentences: list[str] = []
    for part in _SENTENCE_END.split(_ANSWER.sub("", text)):
        before, question = part.strip(), ""
        if before.endswith("?"):
            pieces = _QUESTION.split(before, maxsplit=1)
            before, question = pieces if len(pieces) > 1 else (before, "")
        sentences += [each for each in (before, question) if each]
    return sentences


def _extract_words(text: str) -> frozenset[str]:
    words = (stem_word(word) for word in extract_content_words(text) if not word.isdigit())
    return frozenset(_KINDRED.get(word, word) for word in words)


def is_among(word: str, words: frozenset[str]) -> bool:
    """Whether a word, or another form of it, is among words."""
    if word in words or stem_word(word) in words:
        return True
    least = max(4, -(-len(word) * 6 // 10))
    if any(letter.isdigit() for letter in word):
        return False
    return any(
        word[:least] == each[:least] and len(each) <= least + 3 for each in words if len(each) >= least
    )


def _count_things(text: str) -> dict[str, set[str]]:
    """Return the numbers of things in a text, by the stems of the one or two words after them."""
    found: dict[str, set[str]] = {}
    for number, first, second in _COUNTED.findall(text):
        value = number if number.isdigit() else _COUNTS.get(number.lower())
        for thing in extract_content_words(f"{first} {second}") if value else ():
            if thing.isalpha() and len(thing) > 3:
                found.setdefault(stem_word(thing), set()).add(str(value))
    return found


def extract_marks(specifics: Specifics) -> frozenset[str]:
    """Return the names and values of a text, as single words."""
    names = {word for name in specifics.names for word in name.split() if "'" not in word}
    return (specifics.numbers | specifics.code | names) - _FRAME


def _is_unit(word: str) -> bool:
    return word.lower() in UNITS or any(letter.isupper() for letter in word[1:])


def _is_about_others(sentence: str) -> bool:
    """Whether a sentence is about somebody else than who says it."""
    is_own = _FIRST_PERSON.search(sentence) or _OWN_KIN.search(sentence)
    return bool(_THIRD_PERSON.search(sentence)) and not is_own


def _is_about_another(clause: str, statement: str) -> bool:
    """Whether a clause names first whom a statement does not name, and does not speak of who says it."""
    names = _extract_people(clause)
    first = next((word for word in _list_words(clause)[1:] if word in names), None)
    return first is not None and first not in statement.lower() and not _FIRST_PERSON.search(clause)


def _extract_people(text: str) -> frozenset[str]:
    """Return the single words of a text that are names, and no days or months."""
    names = extract_specifics(text).names
    return (
        frozenset(name for name in names if " " not in name and name.removesuffix("s") not in _CALENDAR)
        - _FRAME
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
    """Return the stems of the few words around each negation, within its clause."""
    denied: set[str] = set()
    for clause in CLAUSE.split(_INSTEAD.sub("not", text)):
        words = _list_words(clause)
        for at, word in enumerate(words):
            if has_negation(word):
                denied.update(words[at + 1 : at + 6])
                denied.update(words[max(0, at - 2) : at] if word.endswith(("n't", "not")) else ())
    return frozenset(map(stem_word, denied))


def has_negation(text: str) -> bool:
    """Return whether a word of the text denies something."""
    words = _list_words(_COMPOUND.sub("", text))
    return any(word in DENIALS or word.endswith("n't") for word in words)


def extract_content(text: str) -> frozenset[str]:
    """Return the words of a line that say something, with its names and numbers."""
    text = _OWNER.sub(" ", _MARKER.sub("", text, count=1))
    specifics = extract_specifics(text)
    values = specifics.numbers | specifics.addresses | {time for time in specifics.times if ":" in time}
    names = {stem_word(word) for name in specifics.names for word in name.split()}
    return (_extract_words(text) | values | names) - _FRAME
