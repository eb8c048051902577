"""What people ask of their memory in a message: to remember, to forget, or not to record.

A wish is an imperative with a verb of memory and the object that this verb needs: a clause for "remember", a subject
for "forget", the message or the conversation for "don't record". Questions ("Do you remember that …?"), statements
("I forget what I said about …"), idioms ("Forget it") and quotations are not wishes. In doubt a sentence is none.
"""

from __future__ import annotations

import re

from reverie.consolidation.patterns import PatternFile
from reverie.consolidation.sentences import ASKS, split_sentences, strip_quotations
from reverie.domain.conversation import Wish, WishName
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.escaping import unquoted_text

_WISHES = PatternFile("wishes", re.IGNORECASE)
_VERBS = defer_regex(
    r"rem[ei]m|recu|ten |tien|tête|recor|forg|mind|not[aei]|memor|sav|stor|eras|delet|remov|wip|scrub|log|keep|writ"
    r"|merk|denk|verg|behalt|speich|lösch|entf|zeich|unter uns|souv|rapp|ret|oubli|gard|effac|suppr|enreg|entre n|acu"
    r"|olvid|cuenta|apunt|guard|borr|elim|regist|grab|entre t|ricord|ment|dimen|segn|salv|cancel|tra (?:di )?noi|lembr"
    r"|esque|apag|grav|[记記忘删清保储覚憶メ削消オ]|off the record",
    re.IGNORECASE,
)
"""Beginnings of the words without which no sentence is a wish, so that others are not read."""

_COLON = defer_regex(r"[:：]\s*$")
_LONGEST = 600


def find_wishes(message: str) -> list[Wish]:
    """Return the wishes of a message, without code, quotations and what it reports.

    >>> find_wishes("Please remember that I park on the roof. Is that far?")
    [Wish(name='remember', text='I park on the roof.')]
    >>> find_wishes("Forget what I said about the divorce."), find_wishes("Do you remember that we met?")
    ([Wish(name='forget', text='the divorce')], [])
    """
    if _VERBS.search(message) is None:
        return []
    sentences = [" ".join(each.replace("’", "'").split()) for each in split_sentences(unquoted_text(message))]
    found = [_read_wish(each) for each in sentences]
    wishes = []
    for place, wish in enumerate(found):
        if wish is None:
            continue
        others = [
            each
            for each, other in zip(sentences, found, strict=True)
            if other is None and not ASKS.search(each)
        ]
        if wish.name == "remember" and wish.text and _COLON.search(sentences[place].removesuffix(wish.text)):
            # A list of statements after a colon.
            others = [each for each in sentences[place + 1 :] if each in others]
            wish = Wish("remember", " ".join([wish.text, *others]))
        elif wish.name in ("remember", "skip") and not wish.text:
            wish = Wish(wish.name, " ".join(others))
        if wish.name == "remember":
            wish = Wish("remember", wish.text[:1].upper() + wish.text[1:])
        wishes.append(wish)
    return wishes


def _read_wish(sentence: str) -> Wish | None:
    """Return the wish of a sentence; None if it is none."""
    if len(sentence) > _LONGEST or _VERBS.search(sentence) is None:
        return None
    plain = sentence.rstrip("?？ ")
    if plain != sentence and _WISHES["modal_opening"].match(plain) is None:
        return None
    masked = strip_quotations(plain)
    for name, patterns in _PATTERNS.items():
        for pattern in patterns:
            if _WISHES[pattern].search(masked) and (found := _WISHES[pattern].search(plain)):
                text = next((each for each in found.groupdict().values() if each), "").strip(" ,")
                return Wish(name, text if name != "forget" else text.rstrip(".!。"))
    return None


_PATTERNS: dict[WishName, tuple[str, ...]] = {
    "resume": ("resume",),
    "pause": ("pause",),
    "skip": ("skip_before", "skip_after"),
    "forget": ("forget",),
    "remember": ("remember_this", "remember_clause", "remember_after"),
}
