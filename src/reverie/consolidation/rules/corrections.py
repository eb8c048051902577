"""Rule for sentences that say that the assistant was wrong."""

from __future__ import annotations

import re

from reverie.consolidation.rules.wording import compile_pattern

_WRONG = r"(?:wrong|incorrect|false|mistaken|not (?:right|correct|true|accurate|what i|at all what))"
_NO = (
    r"^(?:(?:sorry|hmm|well|but|wait|hey|again|ah|oh)[,.!]? )*"
    r"no(?:pe)?(?:[,.!;:–—-]+ ?| no\b[,.!]? ?| - )"
)
_CORRECTION = compile_pattern(
    r"\b(?:that|this|it|your (?:[\w-]+ )?\w+|the \w+ you (?:gave|used|wrote|named))(?:'s| is| was|s|"
    rf" are)? (?:still |just |simply |completely |also |all |plain |totally )*{_WRONG}\b(?! (?:to|with|of|"
    r"about|on so)\b)",
    r"\b(?:that|this|it)(?:'s| is|) ?(?:isn't|n't|wasn't|is not|was not|'s not) (?:quite |really |"
    r"at all )?(?:right|correct|true|what i|accurate|the (?:right|correct|one i))\b",
    r"\b(?:that|this)(?:'s| is| was) (?:still )?(?:the|an?) (?:wrong|old|incorrect) \w+",
    r"^(?:again )?(?:the )?wrong \w+[.!]*$",
    r"\byou(?:'ve| have)?(?: just| again)? (?:used|changed|picked|took|opened|edited|gave|deleted|chose|"
    r"wrote|renamed|read) (?:me )?the wrong\b",
    r"\byou(?:'re| are| were) (?:still |just |simply )?(?:wrong|mistaken|mixing up|confusing|misreading|"
    r"ignoring)\b",
    r"\byou(?:'ve| have| keep| again| also| completely| just| totally| seem to have)* "
    r"(?:misunderst(?:ood|and)|misread|mixed up|misquoted|overlooked|hallucinated|ignor(?:ed|ing)|"
    r"forgetting|skipp(?:ed|ing)|missed|forgot|invented|made (?:that|this|it) up)\b(?! (?:nothing|"
    r"anything|a |out\b|it all))",
    r"\byou answered (?:a|the) (?:different|wrong|other)\b|\byour \w+ (?:leaves out|is missing|ignores|"
    r"misses)\b",
    r"\byou said .*, but\b.*\b(?:is|it's|was|are)\b|\b(?:that|this)(?:'s| is) not (?:how|where|when|who|"
    r"why|which)\b",
    r"\byou(?:'ve| have)? got (?:it|that|this|the [\w -]{1,40}|[\w-]+(?:'s)? [\w-]+) (?:wrong|backwards|"
    r"the wrong way)\b",
    r"\byou (?:didn't|did not|haven't|have not) (?:include|do|follow|answer|change|use|add|read|finish|"
    r"keep|update|apply|remove)\b(?! (?:anything|nothing|much|well|badly))",
    r"\byou (?:were|are) supposed to\b|\byou should(?: not|n't) have \w",
    r"\bi (?:said|meant|wanted|asked for)\b[^;]*[,;] (?:and )?not\b",
    r", i said \w+!",
    r"\bi meant (?:the|my|your|our|his|her|a|an|(?-i:[A-Z0-9`“]))(?!.*\b(?:to ask|joke)\b)",
    r"^(?:no[,.] |please .*, )?i said (?:no|without|only|never|not)\b",
    r"\bi said (?:without|no) \w+",
    r"\bi told you (?:to|not to|never|always)\b",
    r"\bi (?:never|didn't|did not) (?:said?|ask(?:ed)?|tell|told) (?:that|you|this|for|it)\b",
    r"\bi (?:didn't|did not) (?:want you to|want (?:that|this)\b|mean (?:that|the)\b)",
    r"\bnot what i (?:asked|wanted|meant|said|needed)\b|\b(?:doesn't|does not|"
    r"didn't) answer my question\b|\bthat can't be (?:right|correct)\b",
    r"^(?:undo|revert) that, i (?:didn't|did not|wanted)\b|^stop doing that\b|^don't do that, i\b",
    r"^correction: |^not (?:that|this) (?:one|file|way)\b",
    r"^actually,? (?:no|nope)\b|^actually,? \b.*(?:, not \w|\band not\b|\bspelled\b|\bspelt\b|"
    r"\bcorrect \w+ is\b|\binstead\b)",
    r"^actually,? (?:it|that|this)(?:'s| is| was) (?:on |at |called |named |port |number )?"
    r"(?:\S*\d|(?-i:[A-Z`\"“]))",
    r"^(?:(?:no|sorry|hmm|but)[,.]? )*(?:that|this|it)(?: still)? (?:didn't|did not|doesn't|does not) (?:\w+ )?"
    r"(?:work|help)\b(?! (?:out|at|on|for|as|with|like)\b)",
    r"^(?:(?:no|please|now|ok)[,.]? )*try (?:it |that |this )?again\b(?! (?:later|tomorrow|next)\b)",
    r"^why did you\b.*\bi only (?:asked|wanted|said|meant)\b",
    r"\bi only asked you to\b",
    rf"{_NO}(?:(?:that's|that is|this is|it's|it is) (?:not|wrong|incorrect|the (?:wrong|old|other))\b|"
    r"(?:still )?the wrong\b|not (?:that|this|the|those|these|my|our|in the|what|how|like)\b|i (?:said|"
    r"meant|asked|wanted|told)\b|wrong\b|.*, not \w+)",
)
_ANSWER_NO = compile_pattern(
    rf"{_NO}(?:my name|we (?:live|decided|agreed|use)|i (?:live|prefer|work)|the |use |his |her |our |"
    r"it's (?:the|my|our) |you (?!can|may|should|go|are right|decide|choose))",
    r"^not quite(?:$|[,.])",
)
_NO_CORRECTION = compile_pattern(
    r"\b(?:if|whether|correct me|maybe|perhaps|might be|could be)\b",
    r"\bnot wrong\b|\bnothing (?:is )?wrong\b|\bnot (?:a )?mistake\b",
    r"\b(?:he|she|they|my (?:mother|father|boss|teacher|wife|husband)) (?:says?|said|thinks?|told)\b",
    r"^(?:is|was|am|are|did|does|what|what's|which|who|how|where)\b",
    r"\bi (?:was|am|'m) wrong\b|\bthanks?\b|\bthank you\b|\btold you about\b|\bnever wrong\b",
    r"\bimpressive\b|\ball good\b|^you (?:never|didn't) miss(?:ed)? (?:much|anything)\b|\bi missed\b",
)
_ASKS_BACK = re.compile(r"\?[\"')”]*$")


def is_correction(masked: str, *, answering: bool) -> bool:
    """Whether a sentence corrects the assistant. `answering` says whether it answers a question."""
    if _NO_CORRECTION.search(masked):
        return False
    if _ASKS_BACK.search(masked) and not masked.lower().startswith("why did you"):
        return False
    return _CORRECTION.search(masked) is not None or (not answering and _ANSWER_NO.search(masked) is not None)
