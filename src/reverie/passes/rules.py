"""Which sentence states a decision, a constraint, a preference, a failure, a fix, or that the assistant was wrong?

Rules over single sentences, for English. In doubt a rule stays silent: a missed sentence is still a stored
turn that search finds, a wrong one becomes a memory that nobody stated. So a question, a condition, a guess, a
quotation, code, hearsay and what other people want state nothing here. Nothing is stored here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

from reverie import tokens
from reverie.passes.specifics import word_set

Rule = Literal["decision", "constraint", "preference", "failure", "fix", "correction"]
Speaker = Literal["user", "assistant"]

RULES: tuple[Rule, ...] = get_args(Rule)

LONGEST_TEXT = 20_000
"""Characters of one turn that are looked at, from its beginning; what follows is a paste more often than not."""

LONGEST_SENTENCE = 400
"""Characters of a sentence that can state anything; a longer one is a log line or a list."""


def stated(sentence: str, *, speaker: Speaker, answering: bool = False) -> tuple[Rule, ...]:
    """What one sentence states, in the order of `RULES`; nothing in most cases.

    Args:
        sentence: The sentence, as `sentences` gives it.
        speaker: Who says it. Only a user corrects; an assistant's own wishes and plans state nothing.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> stated("We decided to use PostgreSQL.", speaker="user")
    ('decision',)
    >>> stated("No problem.", speaker="user")
    ()
    """
    said = _plain(sentence)
    if len(said) > LONGEST_SENTENCE or _CODE_LINE.search(said):
        return ()
    found: set[Rule] = set()
    if speaker == "user" and _is_correction(said, answering=answering):
        found.add("correction")
    if not _NO_STATEMENT.search(said):
        body = _OPENING.sub("", said)
        found |= {rule for rule, holds in _HOLDS.items() if holds(body, speaker)}
    return tuple(rule for rule in RULES if rule in found)


def sentences(text: str) -> list[str]:
    """The sentences of a message, without code blocks, quoted lines, tables and the marks of lists.

    >>> sentences("It fails. See Dr. Weiss:\\n- `x = 1`\\n> quoted")
    ['It fails.', 'See Dr. Weiss:', '`x = 1`']
    """
    plain = _FENCE.sub("\n", tokens.cleaned(text[:LONGEST_TEXT]))
    lines = [line.strip() for line in plain.split("\n")]
    kept = "\n".join("" if line.startswith((">", "|", "$ ", "#!")) else line for line in lines)
    kept = _WRAPPED.sub(" ", kept)
    return [found for line in kept.split("\n") for found in _split(_MARK.sub("", line))]


def looks_secret(sentence: str) -> bool:
    """Whether a sentence seems to hold a key, a token or a password; such a one is never kept.

    >>> looks_secret("The password is hunter2!"), looks_secret("Passwords must be hashed.")
    (True, False)
    """
    return _SECRET.search(sentence) is not None or any(
        _is_random(found.group()) for found in _LONG_RUN.finditer(sentence)
    )


def references(text: str) -> tuple[str, ...]:
    """The files, addresses, tests, issues and commits that a text names, each once, in their order; at most 20.

    >>> references("Fixed tests/test_api.py::test_login in 4f2a9c1, see #42 and https://x.org/a.")
    ('tests/test_api.py::test_login', '4f2a9c1', '#42', 'https://x.org/a')
    """
    found: dict[str, None] = {}
    for each in _REFERENCE.finditer(text[:LONGEST_TEXT]):
        name = each.group().rstrip(".,;:!?)]}'\"")
        is_commit = each.lastgroup == "commit"
        if name and not (is_commit and (name.isdigit() or name.isalpha())) and not looks_secret(name):
            found[name[:500]] = None
    return tuple(found)[:_MOST_REFERENCES]


def tags(text: str) -> tuple[str, ...]:
    """The programming languages and tools that a text names, in lower case; at most 8.

    >>> tags("The Docker build of the Go service fails in app.py")
    ('docker', 'go', 'python')
    """
    found: dict[str, None] = {}
    for each in _NAMED.finditer(text[:LONGEST_TEXT]):
        word = each.group()
        found[_TOOLS.get(word.lower()) or _ENDINGS.get(word.lower().rpartition(".")[2]) or word.lower()] = None
    return tuple(found)[:_MOST_TAGS]


def speaks_for_itself(sentence: str) -> bool:
    """Whether a sentence says something to those who do not see what stood before it.

    >>> speaks_for_itself("That fixed it, thanks!"), speaks_for_itself("Restarting the daemon solved it.")
    (False, True)
    """
    words = {word.lower() for word in _WORD.findall(sentence)} - _EMPTY_WORDS
    return len(words) >= 2 and not _POINTS_BACK.search(_plain(sentence))


# -- sentences -------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_WRAPPED = re.compile(r"(?<=[a-z,;])\n(?=[a-z])")
_MARK = re.compile(r"^(?:[-*+•]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])\s+")
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*\s+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|no|nr|vs|etc|e\.g|i\.e|approx|ca|incl|fig|sec|vol|inc|ltd|jr|sr|a\.m|"
    r"p\.m)"
    r"|(?:^|\s)\w|^\d+)\.$",
    re.IGNORECASE,
)


def _split(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        if _ABBREVIATION.search(line[start : end.end()].rstrip()):
            continue
        yield line[start : end.end()].strip()
        start = end.end()
    if rest := line[start:].strip():
        yield rest


_CODE = re.compile(r"`[^`\n]*`")
_QUOTED = re.compile(r"[\"“„«][^\"“”«»\n]*[\"”“»]|(?<!\w)'[^'\n]{3,}'(?!\w)")
_APOSTROPHE = str.maketrans("’‘ʼ", "'''")


def _plain(sentence: str) -> str:
    """The sentence with quotations and code taken out, but for their place."""
    masked = _QUOTED.sub("“”", _CODE.sub("CODE", sentence.translate(_APOSTROPHE)))
    return " ".join(masked.replace("*", " ").replace("__", " ").split())


# -- what states nothing ---------------------------------------------------------------------------------

_CODE_LINE = re.compile(
    r"^(?:def|class|import|from \w+ import|raise|assert|return|if|for|while|git|npm|pip|sudo|select|insert|"
    r"const|let|var|function|public|private|echo|export)\b.*(?:[(){};=]|--?\w|FROM\b)",
)
_NO_STATEMENT = re.compile(
    r"""\?["'”)\]]*$ | \?\s
      | ^(?:and |but |so |ok,? )?(?:what|which|who|whose|why|how|where|did|does|do\ (?:you|we|i|they)|should|shall|
        could|would|can|may|is|are|was|were|has|have\ (?:you|we|i|they)|had|am|must\ (?:i|we)|will|when\ (?:will|did|does|
        is|are|do))\b
      | \b(?:(?<!love\ it\ )(?<!like\ it\ )if|unless|whether|suppose|supposing|imagine|assuming|hypothetically|maybe|perhaps|possibly|probably|
        might|in\ case|once\ you|once\ we|as\ if|let\ me\ know|pretend|wonder|wondering|undecided|or\ else)\b
      | \b(?:used\ to|years\ ago|back\ in\ (?:\d|the)|in\ the\ past|formerly|previously|no\ longer|not\ any\ ?more|
        when\ i\ was|as\ a\ (?:student|teenager|child|kid))\b
      | \b(?:i\ read\ somewhere|apparently|supposedly|allegedly|they\ say|rumou?r|the\ article|the\ author|it\ is\ said)\b
      | \bin\ (?:the|this|that|my|a)\ (?:novel|film|movie|book|story|article|poem|game|song|series|dream|play|example)\b
      | ^(?:please\ )?(?:write|translate|draft|compose|summari[sz]e|explain|describe|show|give|list|compare|add|create|
        implement|fix|correct|help|find|search|grep|open|rename|generate|make\ sure|check|review|rewrite|tell)\b
      | [,.”]\ (?:said|says|wrote|writes|sang|replied|shouted|goes)\ (?:the|my|his|her|a|an|[a-z]+)\b
      | \b(?:(?<!i\ )(?<!we\ )usually|often|typically|in\ general|generally\ speaking|most\ common|(?:he|she|they)\ (?:says?|said|claims?|thinks?))\b
      | \b(?:i|let's|let\ us)\ hope\b|\bi\ (?:guess|doubt|bet)\b
      | ^(?:thanks|thank\ you|sorry\ for|great\ question|good\ question)[!.]*$
      | [:,]\s*“”\s*$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_OPENING = re.compile(
    r"^(?:(?:(?:ok(?:ay)?|yes|yeah|yep|alright|all right|so|then|well|hmm|oh|hey|hi|also|and|but|"
    r"actually|anyway|note that|"
    r"fyi|remember that|just so you know|in the end)(?:,|:|!|\.| -| –| —)?|"
    r"(?:no|nope|sorry|right|fine|great|good|sure|perfect|note|remember)(?:,|:|!|\.| -| –| —))\s+)+",
    re.IGNORECASE,
)
_WE = r"(?:i|we|my (?:wife|husband|partner|team|family) and i|(?:the|our|my) (?:whole )?team)"
_AUX = r"(?:'ve|'d|'m|'re| have| had| am| are| both| all| now| just| also| finally| then| together| unanimously)*"


def _compiled(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)


# -- decisions -------------------------------------------------------------------------------------------

_DECIDED = (
    r"(?:decided (?!to (?:ask|try|check|see|look|wait|write to|take a|call it a|google|test|search|"
    r"start by)\b)|"
    r"agreed (?!with (?:you|your|him|her|them)\b)|opted|chosen?|settled (?:on|for) (?!the (?:sofa|couch|"
    r"chair|beach))|resolved to|"
    r"concluded that|went with .*\b(?:in the end|instead|over the|option|version|plan)|"
    r"ended up (?:choosing|picking)|"
    r"made up (?:my|our) minds?|picked (?!up\b|out\b|the wrong|apples|berries|flowers|a fight))"
)
_LET_US = (
    r"^let(?:'s| us) (?:go (?:with|for) (?!a |it\b)|use (?!this|it\b|that\b|the (?:time|chance|"
    r"opportunity|moment))|"
    r"stick (?:with|to) (?!it\b)|stay with|keep (?!going|in mind|it\b|at it|this up|moving|trying|"
    r"talking|looking|in touch)|"
    r"do (?:option|version|chapter|the [\w-]+ (?:version|option|migration|plan|one))|adopt|(?:choose|"
    r"pick|name) (?!up|a |an |one\b|some)|"
    r"drop (?!it\b|by|in\b|the subject)|settle on|switch to|take (?!a |it\b|this|stock|care|turns)|"
    r"call it (?!a (?:day|night)))"
)
_DECISION = _compiled(
    rf"(?<!once )(?<!after )(?<!until )(?<!when )(?<!that )\b{_WE}{_AUX} {_DECIDED}",
    rf"^(?:we|i) [^,;]{{1,60}}\band (?:then |finally )?{_DECIDED}",
    rf"^[A-Z][a-z]+ and i{_AUX} {_DECIDED}",
    r"^(?:final )?decision(?: recorded)?: ?\S",
    r"^final (?:call|choice): ?\S",
    r"\bit(?:'s| is)(?: now)? (?:settled|decided)[:,]",
    r"^agreed[,:] (?:we|let's|i)\b",
    r"^as (?:agreed|decided)[,:] (?:we|you)\b",
    r"\b(?:board|management|committee|council of owners) (?:has |have )?(?:approved|decided|agreed)\b",
)
_USER_DECISION = _compiled(
    _LET_US,
    r"^(?:i'm |we're |i am |we are )?(?:going|sticking) with (?!it\b|that\b|this\b|you|him|her|them)\w",
    r"^(?:we're|we are|i'm|i am) (?:switching|moving|migrating) (?:from|to|over to)\b(?! the next)",
    r"^(?:we're|we are) (?:dropping|not going to|going to (?:use|keep|adopt|drop|stay|stick))\b",
    r"\b(?:i|we)(?:'ll| will) (?:go (?:with|for)|stay with|stick (?:with|to)|settle (?:on|for)|"
    r"switch to|be using|"
    r"adopt|opt for) (?!you|it\b|that\b)",
    r"^we(?:'ll| will) (?:use|name|call (?:it|the|our)|take the|drop|keep the)\b",
    r"\bwe'll be using\b",
    r"\bso we(?:'ll| will) (?:take|use|go)\b",
    r"^i(?:'ll| will) take the (?!bus|train|tram|day|kids|dog|rubbish|trash|stairs|car|afternoon|"
    r"morning)\w+.*\bnot\b",
    r"^the plan is to (?!ask|see|wait)\w+",
)
_AGENT_DECISION = _compiled(
    rf"(?<!once )(?<!if )(?<!when )(?<!that )(?<!after )\byou{_AUX} {_DECIDED}",
)
_OWN = re.compile(r"i\b", re.IGNORECASE)
_UNDECIDED = _compiled(
    r"(?:\bnot|n't|\bnever|\bnothing|\byet to|\bhave to|\bneed to|\bto) (?:\w+ )?(?:decide[d]?|"
    r"agree[d]?|choose|"
    r"chosen|settle[d]?|pick)\b(?! not)",
    r"\b(?:they|he|she|my (?!team|wife|husband|partner|family)\w+) (?:has |have )?(?:decided|chose|"
    r"opted|agreed|picked)\b",
    r"\bat my (?:old|previous|former|last) (?:company|job)\b",
)


def _is_decision(said: str, speaker: Speaker) -> bool:
    if len(said.split()) < 3 or _UNDECIDED.search(said):
        return False
    own = _USER_DECISION if speaker == "user" else _AGENT_DECISION
    found = _DECISION.search(said)
    if found is not None and speaker == "assistant" and _OWN.match(found.group()):
        found = None
    return found is not None or own.search(said) is not None


# -- constraints -----------------------------------------------------------------------------------------

_ORDERED = (
    r"(?:use|touch|change|modify|delete|remove|commit|push|deploy|store|share|send|edit|install|rename|"
    r"create|log|"
    r"merge|overwrite|run|publish|upload|expose|hard-?code|disable|add|book|order|buy|contact|email|"
    r"include|print)"
)
_ALWAYS = rf"(?:{_ORDERED}|call|mention|start|answer|reply|write|put|save|skip|format|sign|pay|round|return|show|speak|ask|test)"
_MUST_DO = (
    r"(?:be|run|work|stay|fit|comply|keep|last|dry|have|use|pass|support|contain|include|remain|match|"
    r"follow|"
    r"handle|accept|return|start|end|finish|arrive|happen|weigh|exceed|cost)"
)
_NOT_EPISTEMIC = (
    r"(?!have (?:been|\w+ed|gone|done|made|had|taken|lost|left|seen|put|got|gotten|forgotten|come|said|"
    r"told|thought|known|felt|"
    r"kept|meant|met|paid|read|run|sent|slept|spent|spoken|stolen|written|broken|eaten|fallen|given|"
    r"grown)\b)"
    r"(?!be (?:\w+ing|tired|excited|proud|nice|fun|hard|tough|difficult|great|lovely|an? |the |so |"
    r"very |wrong|right|joking|asleep|away|"
    r"on holiday|happy|glad|sad)\b)(?!say\b|admit\b|confess\b|see\b|try\b|watch\b|visit\b|feel\b|know\b|"
    r"love\b|think\b|wonder\b)"
)
_CONSTRAINT = _compiled(
    rf"(?<!\bi )(?<!\bwe )(?<!you )(?<!\bit )(?<!that )(?<!this )(?<!\bhe )(?<!she )(?<!they )(?<!there "
    rf")(?<!somebody )"
    rf"(?<!someone )(?<!one )\bmust(?: always| never| only| not|n't)? {_NOT_EPISTEMIC}\w+",
    r"\b(?:i|we|you|it|they|this|that) must(?: not|n't| never| always| only| under) (?!forget|worry|"
    r"have|be confused|lose hope)\w+",
    r"\b(?:i|we|you|it) must (?:comply|stay|keep|remain|be (?:back|home|able|finished|done|ready|"
    r"there)\b.*\b(?:by|before|at|within|to)\b)",
    r"\bthere must be (?:at least|no |exactly)\b",
    r"\b(?:is|are|'re|am|'m) (?:not|never|only) (?:allowed|permitted|authori[sz]ed)\b",
    r"\b(?:is|are) (?:strictly )?(?:forbidden|prohibited|mandatory|compulsory|off[- ]limits|"
    r"non-negotiable)\b",
    r"\b(?:is|are) required (?:for|by|in|on|to|before|at)\b",
    rf"(?<!\bi )(?<!\byou )(?<!n't )(?<!not )(?<!never )(?<!there )\b(?:has|have|needs) to {_MUST_DO}\b"
    r"(?! (?:said|honest|fair|a |an |the |something|someone|fun|nice|lunch|dinner|another|more))",
    r"\bwe (?:need|have) to (?:keep|comply|stay|remain|support|retain|preserve)\b",
    r"\b(?:we|i|you) (?:can't|cannot|can not|may not|mustn't) (?:(?:use|eat|drink|drive|spend|store|"
    r"share|exceed) (?!it\b|this|that|another|any ?more|all)|"
    r"take (?!it|this|that|any ?more|you|him|her|them)|work (?:on|after|before)|fly|travel|lift)\b",
    r"\b(?:can't|cannot|may not|must not) (?:be (?:longer|larger|bigger|more|over|higher|wider|later|"
    r"heavier)|exceed)\b",
    r"\b(?:may|can) only (?!imagine|hope|agree|recommend|guess|assume|wonder|speculate|see|say|dream)\w+",
    r"\bno (?:\w+ ){1,3}(?:may|can|must) be (?:bigger|larger|longer|more|older|higher)\b",
    r"\bonly supports? (?!me|you|us)\w+",
    r"^(?:max|min)(?:imum|\.)? \d+ \w+",
    r"\bonly [\w-]+ (?:may|are allowed to)\b",
    r"\bmay (?:never|use no more|not exceed|be used only|no longer be)\b",
    r"\b(?:is|are) (?:strictly )?limited to\b",
    r"\b(?:the|our|my|your) (?:[\w-]+ ){0,2}(?:deadline|budget|limit|maximum(?: [\w-]+){0,3}|"
    r"minimum(?: [\w-]+){0,3}) "
    r"(?:is|of) (?=\S* ?\S* ?(?:\d|at most|monday|tuesday|wednesday|thursday|friday))",
    r"\bonly accepts? (?:\w+ ){0,3}(?:up to|below|under|with)\b",
    r"\bunder no circumstances\b",
    r"^no (?!problem|issue|error|failure|crash|complaint|idea|change|news|luck|worr|doubt|need|rush|one|"
    r"trouble|sign)"
    r"(?:[\w-]+ ){1,4}(?:before|after|during|on|without|over|under|are (?:allowed|permitted))\b",
    r"\bthat no [\w-]+ (?:[\w-]+ )?(?:happen|take place|are|is)\b",
    r"\ballergic to\b",
    r"\b(?:policy|contract|lease|law|licen[cs]e|sla|landlord|client|customer|auditor|spec|specification|"
    r"regulation|insurance)s? "
    r"(?:strictly )?(?:requires?|forbids?|demands?|insists?|prohibits?|does not allow|doesn't allow|"
    r"do not allow|don't allow)\b",
    r"\b(?:we|i) only have \d",
    r"\bhard requirement\b",
    r"\bnobody (?:\w+ ){0,3}may\b",
    r"\b(?:we|you) may only\b",
)
_USER_CONSTRAINT = _compiled(
    rf"^(?:please )?(?:always|never) (?!say never|ever|mind){_ALWAYS}\b",
    rf", (?:please )?never (?!mind|ever|say){_ORDERED}\b",
    rf"^you have to {_ORDERED}\b",
    rf"^(?:please )?(?:do not|don't)(?: ever)? {_ORDERED} (?!that\b|it\b|this again)",
    rf"\b(?:told|asked) you (?:to )?(?:never|always|not) to {_ORDERED}\b",
    rf"\btold you (?:never|always) to {_ORDERED}\b",
)
_OF_OURS = re.compile(
    r"^(?:the|your|our|this|these|those) |^you (?:are not|may not|cannot|can't|may only)|\b(?:your|our)\b|"
    r"\bin this (?:project|repository|repo|codebase|folder|house|team)\b|^commits\b",
    re.IGNORECASE,
)
"""What an assistant says of other things is how things are in general, and nothing of the owner's."""
_UNCONSTRAINED = _compiled(
    r"\b(?:doesn't|don't|does not|do not|didn't|did not) (?:have|need) to\b",
    r"\bno limit\b|\bunlimited\b|\bit depends\b|\bsome holidays\b",
    r"\bmust be an? (?:easier|better|other|simpler)\b",
    r"^(?:you|that|this|it|he|she|they) must be (?!at|in|on|no|less|more|able|signed|sent|done|ready|"
    r"finished|kept)\b",
    r"\b(?:knights|king|queen|hero|character)s? must\b",
)


def _is_constraint(said: str, speaker: Speaker) -> bool:
    if _UNCONSTRAINED.search(said) or len(said.split()) < 3:
        return False
    if speaker == "assistant":
        return _OF_OURS.search(said) is not None and _CONSTRAINT.search(said) is not None
    return _CONSTRAINT.search(said) is not None or _USER_CONSTRAINT.search(said) is not None


# -- preferences -----------------------------------------------------------------------------------------

_HOW = (
    r"(?: really| much| strongly| generally| usually| always| still| personally| also| definitely|"
    r" absolutely| do|"
    r" just| simply| tend to| mostly)*"
)
_NOT_LIKED = (
    r"(?!(?:these|those|this|that) \w|(?:it|this|that|you|him|her|them)\s*(?:[!.,;]|$|so much|very much|"
    r"too)|(?:that|this|your|the) (?:idea|suggestion|new|updated|"
    r"latest|second|first|third|last|title|version|draft|layout|tone|plan|answer|result|sound|look|way|"
    r"analysis|approach|work|job)\b|how |where |what |to (?:ask|say|admit|bother|interrupt|"
    r"hear|know|see (?:how|what|if)|break|be that)|not to (?:say|answer|speculate|talk)|the (?:way|look|"
    r"sound) (?:you|of))"
)
_PREFERENCE = _compiled(
    rf"\b(?:i|we){_HOW} (?:hate|dislike|detest|loathe|love|enjoy|adore|like) {_NOT_LIKED}\w",
    rf"\b(?:i|we){_HOW} (?:prefer|favou?r) (?!not to (?:say|answer|speculate|talk))\w",
    r"\b(?:i|we)(?:'d| would)(?: much| really)? (?:prefer|rather) (?!not (?:say|answer|to say))\w",
    r"\b(?:i|we) (?:do not|don't|really don't|do n't) (?:really )?(?:like|enjoy|love) "
    rf"{_NOT_LIKED}\w",
    r"\bi (?:do not|don't) want (?:to see|you to|any)\b",
    r"\b(?:i|we) (?:really )?(?:can't|cannot) stand (?!by|it\b|up|in\b|here)",
    r"\b(?:i'm|i am|we're|we are) (?:really )?(?:not )?a (?:big |huge |great )?fan of\b",
    r"\bmy (?:(?:absolute|all-time) )?(?:favou?rite|preferred) (?!part|bit|scene|line|"
    r"moment)(?:[\w-]+ ){1,3}(?:is|are) (?!wrong|missing|broken|closed|gone|back)",
    r"\bi'd like you to (?:always|never)\b",
    r"\bi'd love it if\b",
    r"\bi want (?:all|every|each|my|your) [\w-]+ (?:[\w-]+ )?(?:in|as|to be|with|without)\b",
    r"\bi wish you (?:would|wouldn't)\b",
    r"\b(?:i'm|i am) more comfortable with\b",
    r"\bworks? best for me\b",
)
_ANSWERED = r"(?:answer|reply|respond|speak|talk|write|use|call|address|start|begin|end|add|put|give|show|keep|send|format|skip)"
_STANDING = _compiled(
    rf"\bfrom now on,? (?:please |always |never |only |you |don't |do not )*{_ANSWERED}\b",
    rf"^(?:please )?{_ANSWERED} .*\bfrom now on\b",
    rf"^in (?:the )?future,? (?:please |always |never |don't )*{_ANSWERED}\b",
    r"^(?:please )?call me (?-i:[A-Z])\w+(?:[.!,]|$)",
    r"^(?:please )?stop (?:using|adding|writing|putting|calling|rewriting|apologi[sz]ing|repeating|"
    r"summari[sz]ing|explaining|ending|"
    r"starting|sending|giving|suggesting|including|inserting|formatting|wrapping|doing that, i)\b",
    rf"^(?:please )?{_ANSWERED} .*\bwhen(?:ever)? you (?:write|answer|reply|explain|show|talk)\b",
    rf"^when(?:ever)? you (?:write|answer|reply|talk|send|show|explain)\b[^,]*, (?:please )?{_ANSWERED}\b",
    rf"^(?:please )?(?:always|never|don't ever|do not ever) {_ANSWERED}\b.*\b(?:me|your|answers?|"
    rf"repl(?:y|ies)|emojis?|"
    r"german|english|french|spanish|italian|dutch|units|bullet|tone|markdown)\b",
)
_AGENT_PREFERENCE = _compiled(
    rf"(?<!as )(?<!ever )(?<!what )(?<!thing )(?<!than )(?<!how )(?<!would )(?<!do )(?<!did )"
    rf"\byou{_HOW} (?:prefer|like|love|hate|dislike|enjoy|don't like|do not like) {_NOT_LIKED}(?!to see|"
    rf"me to|another)\w",
    r"\byour (?:favou?rite|preferred) (?:[\w-]+ ){1,3}(?:is|are)\b",
)


def _is_preference(said: str, speaker: Speaker) -> bool:
    if speaker == "assistant":
        return _AGENT_PREFERENCE.search(said) is not None and not said.endswith("!")
    return _PREFERENCE.search(said) is not None or _STANDING.search(said) is not None


# -- failures --------------------------------------------------------------------------------------------

_THING = (
    r"(?:builds?|tests?|test suite|jobs?|deploy(?:ment)?|migration|pipeline|upload|download|import|"
    r"export|backup|install"
    r"(?:ation)?|login|request|query|script|command|server|app|service|page|payment|release|api|sync|"
    r"check|compile|"
    r"booking|card|order|application|push|commit|transaction|connection|search|endpoint|website|site)"
)
_FAILING = _compiled(
    r"(?<!\ba )(?<!the )(?<!any )(?<!each )(?<!of )(?<!all )(?<!those )(?<!these )(?<!that )(?<!which )"
    r"\b(?:fails|failed|failing)\b(?! (?:over|uploads?|requests?|logins?|attempts?|jobs?|tests?|fast|"
    r"states?|to (?:mention|notice|see|failures))\b)",
    rf"\b{_THING}s? (?:still )?fail\b",
    r"(?<!the )(?<!of )(?<!these )(?<!many )\b(?:crashes|crashed|crashing)\b",
    r"\bcrash (?:on|at|when|after|during)\b",
    r"\b(?:times|timed) out\b|\baborted\b|\bgot stuck\b",
    r"\b(?:doesn't|does not|don't|do not|didn't|did not) (?:work|help|run|start|open|load|respond|pass|"
    r"compile|boot|charge)\b"
    r"(?! (?:on weekends|at|there|for|as a|in (?:an|the) office))",
)
"""What tells of a failure where it is something of ours, or now, that fails; elsewhere it tells of the world."""
_OURS = _compiled(
    r"\b(?:i|i'm|i've|my|we|we're|our|us|again|still|now|today|tonight|yesterday|once|twice|times|"
    r"this morning|last night|since|on ci|on startup|"
    r"because|after|error|exception|status|code|CODE|step|halfway|nights?|shard|checks?|windows|linux|"
    r"macos|ios|android|check|it|"
    r"with (?:an? )?\w*(?:error|exception|violation|e[A-Z]{3,}))\b",
    rf"\b{_THING}\b",
    r"\w+(?:Error|Exception)\b|\b\w+_\w+\b|\b[\w/-]+\.\w{1,5}\b|\b[45]\d\d\b|\b(?-i:E[A-Z]{4,})\b",
    r"\bwhen i\b|\bthe (?:app|heating|light|alarm|parser|boiler|printer|dishwasher|command|door)\b|"
    r"^(?:the )?(?:command|npm|pip|cargo|make)\b|^\w+ing\b.* fails\b",
)
_FAILURE = _compiled(
    r"\bsegmentation fault\b|\bstack overflow\b|\bout of memory\b|\bchokes on\b|\bcrashloopbackoff\b",
    r"\bstopped (?:working|responding|heating|charging)\b|\b(?:broke|breaks|broken) down\b",
    rf"\b{_THING} (?:is|are|was|were|looks|has been) (?:completely |still |now )?(?:broken|down|red|"
    rf"stuck|corrupted|unreachable)\b",
    r"\b(?:is|are|was|were) (?:completely |still |now )?(?:broken|corrupt|corrupted) (?:in|on|since|"
    r"again|after|now)\b",
    r"\b(?:is|are|was|were) corrupted\b",
    rf"\b(?:broke|breaks) the (?:[\w-]+ )?(?:{_THING}|files?|layout|config)\b",
    r"\b(?:didn't|did not) (?:rise|arrive|help)\b(?! (?:himself|herself|themselves|that))",
    r"(?<!\bhe )(?<!she )(?<!they )(?<!\bi )\b(?:isn't|is not|aren't|are not|wasn't|was not|not) working\b"
    r"(?! (?:today|tomorrow|on \w+day|at |as |for |with (?:me|you|us)))",
    r"\bwon't (?:start|connect|boot|open|load|turn on|compile|build|charge|print|play)\b",
    r"\b(?:can't|cannot|could not|couldn't) (?:connect|import|parse|resolve|compile)\b",
    r"\b(?:can't|cannot|could not|couldn't) (?:open|load|reach|find|read) (?:the |a |any |my |"
    r"our )?(?:[\w-]+ )?(?:module|file|image|host|"
    r"package|path|table|class|symbol|command|server|page|database|daemon|header)\b",
    r"\bkeeps? (?:crashing|disconnecting|failing|dropping|freezing|restarting|getting (?:an? |"
    r"the )?\w* ?(?:error|fault))",
    r"\bkeep getting (?:an? |the )?[\w ]*(?:error|fault|exception|timeout)",
    r"\bran out of (?:memory|disk|space)\b|\b(?:had|have) an outage\b",
    r"\b(?:server|site|website|service|api|network|cluster|database|node|wi-?fi|internet) went down\b",
    r"\b(?:returns?|returned|returning|with status|with an? (?:http )?)(?: an?| the|"
    r" me)* [45]\d\d\b(?! [a-z]+s\b)",
    r"\b(?:get|got|getting|gives? me) an? [45]\d\d\b(?! [a-z]+s\b)|\b(?:get|got|getting) an? timeout\b",
    r"\b(?:exits?|exited) with (?:exit )?(?:code|status) [1-9]",
    r"\b(?:throws?|threw|raised|gives?|gave|shows?|get|got|getting|see|seeing|with) (?:me )?(?:an? |"
    r"the |this |this same )?"
    r"(?:\w+ )?(?:\w+Error|\w+Exception|error code)\b",
    r"\b(?:i|we)(?:'m|'re| am| are)? (?:get|got|getting|see|seeing|keep getting) (?:an? |the |this |"
    r"these )?[\w -]{0,30}"
    r"(?:errors?|exceptions?)\b(?! (?:handling|message is clear))",
    r"^(?:[A-Z]\w*(?:Error|Exception)|Error|error|fatal|FATAL|ERROR): ?\S",
    r"\bpermission denied\b|\bconnection (?:\w+ ){0,4}(?:was |is )?refused\b",
    rf"\b{_THING} (?:was|were|got|is) (?:\w+ )?(?:rejected|declined|refused)\b",
    r"\b(?:flight|train|order|booking) (?:was|got) cancell?ed\b",
    r"\bhangs (?:at \d|when|forever|during|while|on (?:start|boot|load))",
    r"\b(?:machine|pipe|tap|boiler|roof|faucet|sink|radiator|dishwasher|heater) (?:is )?leak(?:s|ing)\b",
    r"\bnothing happens when\b",
)
_NO_FAILURE = _compiled(
    r"(?:\bnot|n't|\bnever|\bno longer|\bwithout|\bzero|\bno|\bcannot) (?:\w+ )?(?:fail|fails|failed|"
    r"failing|crash|crashes|crashed|"
    r"crashing|break|errors?|exceptions?|failures?)\b",
    r"\b(?:may|might|could|would|should|will|must|can|must not|to) (?:\w+ )?(?:fail|crash|break|"
    r"time out|not work)\b",
    r"\b(?:he|she|they) (?:has |have |had )?(?:\w+ )?failed\b",
    r"\b(?:when|whenever|where|after|before|until|as soon as|every time) (?:the |a |an |your |my |"
    r"any )?(?:\w+ ){0,2}(?:fails|crashes)\b",
    r"\b(?:afraid|scared|fear|risk|chance) of failing\b|\bfailing (?:gracefully|fast)\b|\bcrash (?:test|"
    r"course)\b|\bstock market\b",
    r"\b(?:common|typical|known) (?:failure|error)s?\b",
    r"\b(?:handles?|covers?|retry|retries|catch(?:es)?|report|log|count)s? (?:the |all )?(?:failed|"
    r"failing|crashed)\b",
    r"\b(?:variable|column|field|status|function|method|flag|counter|label|table|state)\b.*\b(?:failed|"
    r"failing|crashed)\b",
    r"\b(?:failed|failing) (?:variable|column|field|status|flag|counter|state)\b",
    r"\b(?:last year|(?:19|20)\d\d\b(?!-)|years? ago|a|an|any|most|some) \w+ (?:fails|crashes)\b|"
    r"\b(?:last year|in (?:19|20)\d\d)\b",
    r"\b(?:game|market|economy|bank|novel|film)s?\b",
    r"\b(?:solves|fixes|prevents|avoids|got rid of)\b",
    r"\bfailed to mention\b|\bbreak(?:s)? down (?:the|this|into)\b",
)


_CLAUSE = re.compile(r"[,;:]\s|\s(?:but|and|until)\s")


def _is_failure(said: str, speaker: Speaker) -> bool:
    if _NO_FAILURE.search(said):
        return False
    if _is_fix(said, speaker):
        return any(_fails(part) for part in _CLAUSE.split(said) if not _FIX.search(part))
    return _fails(said)


def _fails(said: str) -> bool:
    if _FAILURE.search(said):
        return True
    return _FAILING.search(said) is not None and _OURS.search(said) is not None


# -- fixes -----------------------------------------------------------------------------------------------

_TROUBLE = (
    r"(?:problems?|issues?|bugs?|errors?|crash(?:es)?|leaks?|outage|failures?|regression|warnings?|"
    r"conflict|deadlock|"
    r"race(?: condition)?|glitch|typo|flicker(?:ing)?|squeak(?:ing)?|40[0-9]s?|50[0-9]s?)"
)
_FIX = _compiled(
    rf"\b(?:i|we)(?:'ve| have| just| also| finally| now)* (?:fixed|solved|cured) (?!(?:an? |the |my |"
    rf"this |another )?"
    r"(?:crossword|riddle|puzzle|date|price|mystery|case|equation|exercise|sudoku|maze|quiz|myself|hair|"
    r"dinner|lunch|breakfast))\w",
    rf"\b(?:i|we)(?:'ve| have| just| also| finally| now)* resolved (?:the|this|that|it|"
    rf"an?) ?(?:[\w-]+ ){{0,3}}(?:{_TROUBLE}|by)\b",
    r"^(?:[\w-]+, )?(?:[a-z-]+ly |re-?)?[a-z-]+ing\b.{0,90}?(?<!not )(?<!n't )\b(?:fixed|fixes|solved|"
    r"solves|cured|resolved|resolves|did the trick|"
    rf"got rid of|stopped (?:the|it)|brought .{{1,40}} back|made .{{1,40}} go away)\b",
    r"^(?:simply |just )?[a-z]+ing (?:it |that |the \w+ )?(?:helped|worked)\b",
    r"\b(?:fixed|solved|resolved|cured) (?:it|this|that)\b",
    rf"\b(?:fixed|fixes|solved|solves|resolved|resolves) (?:the|my|our|all|"
    rf"both) (?:[\w'-]+ ){{0,3}}{_TROUBLE}\b",
    r"\bthe (?:fix|solution|workaround|trick|cure|remedy) (?:was|has been) (?:to|an?|that we|simply|by)\b",
    r"^the (?:fix|workaround) is (?:to|simply)\b",
    r"^(?:solved|fixed|resolved)(?: it)?(?:[:,]| in | by | with | the | an? )",
    rf"\b(?:{_TROUBLE}|it|this|that)(?: \w+){{0,2}} (?:is|was|are|were|has been|have been|got|and is|"
    rf"seems) (?:now |all |finally )?"
    r"(?:fixed|resolved|solved)\b(?! in the (?:last|next|first|second|final)| (?:price|rate|cost|number|"
    r"size|term)| at)",
    r"(?<!price )(?<!rate )(?<!date )(?<!cost )\b(?:is|are) (?:now )?fixed(?: now| since| after|[;:,.!]|$)",
    r"(?<!\bhe )(?<!she )\b(?:works|working|pass|passes|boots|builds|runs) (?:fine )?again\b",
    r"\bit works now\b|\bworks (?:now|fine) (?:that|since|after) i\b|\bpass(?:es)? (?:after|since|"
    r"now that) (?:i|we)\b",
    r"\bworks after \w+ing\b|\bgot (?:it|the \w+|them)(?: \w+){0,2} (?:to work|working)\b",
    r"\bdid the trick\b|\bmade the (?:\w+ )?" + _TROUBLE + r" go away\b",
    rf"\b{_TROUBLE} (?:has |have )?(?:went|gone) away (?:after|when|since|with)\b",
    r"\brolled back\b.*\b(?:stopped|gone)\b",
    r"\b(?:deleting|removing|clearing|restarting|reinstalling|adding|renewing|upgrading|"
    r"downgrading) (?:it|them|that|the \w+) "
    r"(?:helped|fixed|solved|resolved)\b",
    r"\broot cause was\b.*\b(?:corrected|fixed|solved|resolved|changed|renewed|replaced)\b",
)
_NO_FIX = _compiled(
    r"(?:\bnot|n't|\bnever|\bhardly|\bnothing|\byet to be) (?:been |yet |really |completely |fully |"
    r"be )?(?:fixed|solved|resolved|"
    r"helped?|work(?:ing|ed)?|pass(?:ed)?)\b",
    r"\b(?:to|can|could|should|will|would|may|must|won't) (?:be |get |have )?(?:fix|fixed|solve|solved|"
    r"resolve|resolved)\b",
    r"\b(?:he|she|they) (?:has |have |had )?(?:fixed|solved|resolved)\b",
    r"\bexercise (?:\w+ )?(?:is|\d)|\bcrossword\b|\bbrothers?\b.*\bresolved\b|\bchapter\b",
    r"\bwhen (?:the|it) (?:\w+ )?is (?:fixed|resolved)\b",
    r"^(?:interesting|amazing|exciting|charming|missing)\b",
    r"\bhelped (?:me|us|a lot)\b|\b(?:price|rate|date|cost|time|day)s? (?:is|are) fixed\b",
    r"\b(?:has|have) been fixed in (?:version|release|v?\d)",
    r"\btried\b.*\b(?:but|without)\b",
)


def _is_fix(said: str, speaker: Speaker) -> bool:
    del speaker
    return _FIX.search(said) is not None and not _NO_FIX.search(said)


_HOLDS: Mapping[Rule, Callable[[str, Speaker], bool]] = {
    "decision": _is_decision,
    "constraint": _is_constraint,
    "preference": _is_preference,
    "failure": _is_failure,
    "fix": _is_fix,
}


# -- corrections -----------------------------------------------------------------------------------------

_WRONG = r"(?:wrong|incorrect|false|mistaken|not (?:right|correct|true|accurate|what i|at all what))"
_NO = r"^(?:(?:sorry|hmm|well|but|wait|hey|again|ah|oh)[,.!]? )*no(?:pe)?(?:[,.!;:–—-]+ ?| no\b[,.!]? ?| - )"
_CORRECTION = _compiled(
    rf"\b(?:that|this|it|your (?:[\w-]+ )?\w+|the \w+ you (?:gave|used|wrote|named))(?:'s| is| was|s|"
    rf" are)? "
    rf"(?:still |just |simply |completely |also |all |plain |totally )*{_WRONG}\b(?! (?:to|with|of|"
    rf"about|on so)\b)",
    r"\b(?:that|this|it)(?:'s| is|) ?(?:isn't|n't|wasn't|is not|was not|'s not) (?:quite |really |"
    r"at all )?(?:right|correct|true|what i|accurate|"
    r"the (?:right|correct|one i))\b",
    r"\b(?:that|this)(?:'s| is| was) (?:still )?(?:the|an?) (?:wrong|old|incorrect) \w+",
    r"^(?:again )?(?:the )?wrong \w+[.!]*$",
    r"\byou(?:'ve| have)?(?: just| again)? (?:used|changed|picked|took|opened|edited|gave|deleted|chose|"
    r"wrote|renamed|read) (?:me )?the wrong\b",
    r"\byou(?:'re| are) (?:still |just |simply )?(?:wrong|mistaken|mixing up|confusing|misreading|"
    r"ignoring)\b",
    r"\byou(?:'ve| have| keep| again| also| completely| just| totally|"
    r" seem to have)* (?:misunderst(?:ood|and)|misread|mixed up|misquoted|"
    r"overlooked|hallucinated|ignor(?:ed|ing)|forgetting|skipp(?:ed|ing)|missed|forgot|invented|"
    r"made (?:that|this|it) up)\b(?! (?:nothing|anything|a |out\b|it all))",
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
    r"^why did you\b.*\bi only (?:asked|wanted|said|meant)\b",
    r"\bi only asked you to\b",
    rf"{_NO}(?:(?:that's|that is|this is|it's|it is) (?:not|wrong|incorrect|the (?:wrong|old|other))\b|"
    rf"(?:still )?the wrong\b|"
    r"not (?:that|this|the|those|these|my|our|in the|what|how|like)\b|i (?:said|meant|asked|wanted|"
    r"told)\b|wrong\b|.*, not \w+)",
)
_ANSWER_NO = _compiled(
    rf"{_NO}(?:my name|we (?:live|decided|agreed|use)|i (?:live|prefer|work)|the |use |his |her |our |"
    rf"it's (?:the|my|our) |you (?!can|may|should|go|are right|decide|choose))",
    r"^not quite(?:$|[,.])",
)
_NO_CORRECTION = _compiled(
    r"\b(?:if|whether|correct me|maybe|perhaps|might be|could be)\b",
    r"\bnot wrong\b|\bnothing (?:is )?wrong\b|\bnot (?:a )?mistake\b",
    r"\b(?:he|she|they|my (?:mother|father|boss|teacher|wife|husband)) (?:says?|said|thinks?|told)\b",
    r"^(?:is|was|am|are|did|does|what|what's|which|who|how|where)\b",
    r"\bi (?:was|am|'m) wrong\b|\bthanks?\b|\bthank you\b|\btold you about\b|\bnever wrong\b",
    r"\bimpressive\b|\ball good\b|^you (?:never|didn't) miss(?:ed)? (?:much|anything)\b|\bi missed\b",
)
_ASKS_BACK = re.compile(r"\?[\"')”]*$")


def _is_correction(said: str, *, answering: bool) -> bool:
    if _NO_CORRECTION.search(said):
        return False
    if _ASKS_BACK.search(said) and not said.lower().startswith("why did you"):
        return False
    return _CORRECTION.search(said) is not None or (not answering and _ANSWER_NO.search(said) is not None)


# -- what is named, and what is never kept ----------------------------------------------------------------

_MOST_REFERENCES = 20
_MOST_TAGS = 8
_SUFFIXES = (
    "py pyi js ts tsx jsx mjs go rs java kt c h cc cpp hpp cs rb php swift scala sh bash ps1 sql html css scss vue "
    "json yaml yml toml xml ini cfg conf env md rst txt csv tsv log lock ipynb proto tf gradle dart lua ex exs hs ml r"
).split()
_REFERENCE = re.compile(
    rf"""(?P<url>https?://[^\s<>"'`|]+)
      | (?P<test>[\w./-]+\.py(?:::[\w\[\]-]+)+)
      | (?P<path>(?<![\w@/.])(?:~|\.{{1,2}})?/?(?:[\w@.+-]+/)+[\w@.+-]*\w/? (?<!\d/\d) (?:(?<=\.\w)|(?<=\.\w\w)|(?<=\.\w\w\w)|(?<=\.\w\w\w\w)|(?<=/)))
      | (?P<rooted>(?<![\w/.:<])(?:~|\.{{1,2}})?/(?:[\w@.+-]+/)+[\w@.+-]*\w)
      | (?P<file>(?<![\w@/.])[\w-]+(?:\.[\w-]+)*\.(?:{"|".join(_SUFFIXES)})\b(?!\.\w))
      | (?P<named>\btest_\w+\b)
      | (?P<issue>(?<![\w&/])(?:[\w-]+/[\w.-]+)?\#\d{{1,6}}\b | \b[A-Z][A-Z0-9]{{1,9}}-\d{{1,6}}\b)
      | (?P<commit>\b[0-9a-f]{{7,12}}\b | \b[0-9a-f]{{40}}\b)
    """,
    re.VERBOSE,
)
_TOOLS = {
    "python": "python", "pytest": "pytest", "django": "django", "flask": "flask", "fastapi": "fastapi", "numpy": "numpy",
    "pandas": "pandas", "javascript": "javascript", "typescript": "typescript", "node": "node", "node.js": "node",
    "npm": "npm", "pnpm": "pnpm", "yarn": "yarn", "react": "react", "vue": "vue", "angular": "angular", "svelte": "svelte",
    "rust": "rust", "cargo": "cargo", "golang": "go", "java": "java", "kotlin": "kotlin", "gradle": "gradle", "maven": "maven",
    "spring boot": "spring-boot", "c++": "c++", "c#": "c#", ".net": "dotnet", "ruby": "ruby", "rails": "rails", "php": "php",
    "swiftui": "swiftui", "scala": "scala", "haskell": "haskell", "elixir": "elixir", "bash": "bash", "powershell": "powershell",
    "sql": "sql", "postgres": "postgresql", "postgresql": "postgresql", "mysql": "mysql", "sqlite": "sqlite", "redis": "redis",
    "mongodb": "mongodb", "kafka": "kafka", "rabbitmq": "rabbitmq", "elasticsearch": "elasticsearch", "docker": "docker",
    "kubernetes": "kubernetes", "k8s": "kubernetes", "helm": "helm", "terraform": "terraform", "ansible": "ansible",
    "nginx": "nginx", "aws": "aws", "azure": "azure", "gcp": "gcp", "github actions": "github-actions", "gitlab": "gitlab",
    "jenkins": "jenkins", "git": "git", "graphql": "graphql", "grpc": "grpc", "webpack": "webpack", "vite": "vite",
    "latex": "latex", "vim": "vim", "neovim": "neovim", "emacs": "emacs", "vscode": "vscode", "systemd": "systemd",
}  # fmt: skip
_ENDINGS = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "jsx": "javascript", "ts": "typescript",
    "tsx": "typescript", "rs": "rust", "java": "java", "kt": "kotlin", "rb": "ruby", "php": "php", "cs": "c#", "cpp": "c++",
    "hpp": "c++", "sh": "bash", "ps1": "powershell", "sql": "sql", "tf": "terraform", "ex": "elixir", "hs": "haskell",
}  # fmt: skip
_NAMED = re.compile(
    rf"(?<![\w.-])(?i:{'|'.join(re.escape(name) for name in sorted(_TOOLS, key=len, "
    rf"reverse=True))})(?![\w+#]|\.\w|-\w)"
    r"|(?<![\w.])Go(?= (?:service|code|module|program|version|\d|binary|test|package|project|backend|"
    r"server))(?!\w)"
    rf"|(?<![\w])[\w/-]+\.(?:{'|'.join(_ENDINGS)})\b"
)
_SECRET = re.compile(
    r"""\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abprs]|npm|pypi|hf|AKIA|ASIA|AIza|eyJ)[-_A-Za-z0-9]{12,}
      | -----BEGIN
      | \b(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|client[ _-]?secret|
        credentials?|pin(?:\ code)?|cvv|otp|bearer|mot\ de\ passe|passwort|kennwort|contraseña)
        \s*(?:(?:for|of|to)\s+[\w.@-]+(?:\s[\w.@-]+){0,3}\s*)?
        (?:is\b(?!\s+(?:not|no|too|wrong|missing|required|expired|stored|in\b|hashed|never|always|the\b|a\b|an\b|kept|set\b|rotated|
        invalid|valid|empty|case|checked|sent|shown|optional|longer|at\ least|refreshed))|was\b\s+\S*\d|are\b\s+\S*\d|[:=])\s*\S
      | \b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@
      | \b(?:\d[ -]?){13,19}\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONG_RUN = re.compile(r"(?<![\w/.])[A-Za-z0-9+_=-]{20,}(?![\w/])")
_HEX = re.compile(r"[0-9a-f]{40}")


def _is_random(run: str) -> bool:
    """Whether a long run of letters and digits is no word, path or commit."""
    if _HEX.fullmatch(run):
        return False
    changes = sum(a.isdigit() != b.isdigit() for a, b in zip(run, run[1:], strict=False))
    mixed = any(c.islower() for c in run) and any(c.isupper() for c in run)
    return changes >= (3 if mixed else 5) and "--" not in run


_WORD = re.compile(r"[\w'’]+")
_EMPTY_WORDS = word_set(
    """
    a an the this that these those it its it's that's is are was were be been am i'm i you you're we we're they he she me
    my your our us them and or but so not no nope yes ok okay of to in on at for with from by as do does did don't didn't
    doesn't have has had will would can could should just still again now then there here all one what which who how very
    much thanks thank please fixed fix fixes solved resolved works work failed fails fail wrong prefer like decided agreed
    sorry helped again did trick stop doing
    """
)
_POINTS_BACK = _compiled(
    r"^(?:ok,? |yes,? |but |and |so |well,? )*(?:that|this|it)(?:'s| is| was)? (?:fixed|solved|resolved|"
    r"worked|works|helped|failed|fails|"
    r"doesn't work|does not work|didn't work|did the trick)\b.{0,20}$",
)
