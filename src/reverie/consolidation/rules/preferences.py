"""Rules for sentences that state a decision, a constraint or a preference."""

from __future__ import annotations

import re

from reverie.consolidation.rules.wording import AUX, WE, Speaker, any_of, compile_pattern

# -- decisions -------------------------------------------------------------------------------------------

_DECIDED = (
    r"(?:decided (?!to (?:ask|try|check|see|look|wait|write to|take a|call it a|google|test|search|"
    r"start by)\b)|agreed (?!with (?:you|your|him|her|them)\b)|opted|chosen?|settled (?:on|for) (?!the "
    r"(?:sofa|couch|chair|beach))|resolved to|concluded that|went with .*\b(?:in the end|instead|"
    r"over the|option|version|plan)|ended up (?:choosing|picking)|made up (?:my|our) minds?|picked "
    r"(?!up\b|out\b|the wrong|apples|berries|flowers|a fight))"
)
_LET_US = (
    r"^let(?:'s| us) (?:go (?:with|for) (?!a |it\b|this\b|that\b)|use (?!this|it\b|that\b|the (?:time|"
    r"chance|opportunity|moment))|stick (?:with|to) (?!it\b)|stay with|keep (?!\w+in[g']|each other|"
    r"in mind|it\b|at it|this up|moving|trying|talking|looking|in touch)|do (?:option|version|chapter|"
    r"the [\w-]+ (?:version|option|migration|plan|one))|adopt|(?:choose|pick|name) (?!up|a |an |one\b|"
    r"some)|drop (?!it\b|by|in\b|the subject)|settle on|switch to|take (?!a |it\b|this|stock|care|turns)|"
    r"call it (?!a (?:day|night)))"
)
_DECISION = compile_pattern(
    rf"(?<!once )(?<!after )(?<!until )(?<!when )(?<!that )\b{WE}{AUX} {_DECIDED}",
    rf"^(?:we|i) [^,;]{{1,60}}\band (?:then |finally )?{_DECIDED}",
    rf"^[A-Z][a-z]+ and i{AUX} {_DECIDED}",
    r"^(?:final )?decision(?: recorded)?: ?\S",
    r"^final (?:call|choice): ?\S",
    r"\bit(?:'s| is)(?: now)? (?:settled|decided)[:,]",
    r"^agreed[,:] (?:we|let's|i)\b",
    r"^as (?:agreed|decided)[,:] (?:we|you)\b",
    r"\b(?:board|management|committee|council of owners) (?:has |have )?(?:approved|decided|agreed)\b",
)
_USER_DECISION = compile_pattern(
    _LET_US,
    r"^(?:i'm |we're |i am |we are )?(?:going|sticking) with (?!it\b|that\b|this\b|you|him|her|them)\w",
    r"^(?:we're|we are|i'm|i am) (?:switching|moving|migrating) (?:from|to|over to)\b(?! the next)",
    r"^(?:we're|we are) (?:dropping|not going to|going to (?:use|keep|adopt|drop|stay|stick))\b",
    r"\b(?:i|we)(?:'ll| will) (?:go (?:with|for)|stay with|stick (?:with|to)|settle (?:on|for)|switch to|"
    r"be using|adopt|opt for) (?!you|it\b|that\b)",
    r"^we(?:'ll| will) (?:use|name|call (?:it|the|our)|take the|drop|keep the)\b",
    r"\bwe'll be using\b",
    r"\bso we(?:'ll| will) (?:take|use|go)\b",
    r"^i(?:'ll| will) take the (?!bus|train|tram|day|kids|dog|rubbish|trash|stairs|car|afternoon|"
    r"morning)\w+.*\bnot\b",
    r"^the plan is to (?!ask|see|wait)\w+",
)
_AGENT_DECISION = compile_pattern(
    rf"^you{AUX} {_DECIDED}",
    r"^decision(?: recorded)?: ?\S",
    r"^as (?:agreed|decided)[,:] (?:we|you)\b",
    rf"^we{AUX} {_DECIDED}",
)
_UNDECIDED = compile_pattern(
    r"(?:\bnot|n't|\bnever|\bnothing|\byet to|\bhave to|\bneed to|\bto) (?:\w+ )?(?:decide[d]?|agree[d]?|"
    r"choose|chosen|settle[d]?|pick)\b(?! not)",
    r"\b(?:they|he|she|my (?!team|wife|husband|partner|family)\w+) (?:has |have )?(?:decided|chose|opted|"
    r"agreed|picked)\b",
    r"\bat my (?:old|previous|former|last) (?:company|job)\b",
)


def is_decision(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says that something has been decided."""
    if len(masked.split()) < 3 or _UNDECIDED.search(masked):
        return False
    if speaker == "assistant":
        return _AGENT_DECISION.search(masked) is not None
    return _DECISION.search(masked) is not None or _USER_DECISION.search(masked) is not None


# -- constraints -----------------------------------------------------------------------------------------

_ORDERED = any_of(
    r"""
    use, touch, change, modify, delete, remove, commit, push, deploy, store, share, send, edit, install,
    rename, create, log, merge, overwrite, run, publish, upload, expose, hard-?code, disable, add, book,
    order, buy, contact, email, include, print
    """
)
_ALWAYS = any_of(
    rf"""
    {_ORDERED}, call, mention, start, answer, reply, write, put, save, skip, format, sign, pay, round,
    return, show, speak, ask, test
    """
)
_MUST_DO = any_of(
    r"""
    be, run, work, stay, fit, comply, keep, last, dry, have, use, pass, support, contain, include,
    remain, match, follow, handle, accept, return, start, end, finish, arrive, happen, weigh, exceed,
    cost
    """
)
_NOT_EPISTEMIC = (
    r"(?!have (?:been|a lot|unreal|so |such |\w+ed|gone|done|made|had|taken|lost|left|seen|put|got|"
    r"gotten|forgotten|come|said|told|thought|known|felt|kept|meant|met|paid|read|run|sent|slept|spent|"
    r"spoken|stolen|written|broken|eaten|fallen|given|grown)\b)(?!be (?:\w+ing|really|quite|such|pretty|"
    r"awesome|incredible|amazing|fantastic|wonderful|special|beautiful|cool|stressful|scary|fulfilled|"
    r"thrilled|inspired|frustrated|overwhelmed|pleased|terrible|awful|heartbreaking|tired|excited|proud|"
    r"nice|fun|hard|tough|difficult|great|lovely|an? |the |so |very |wrong|right|joking|asleep|away|"
    r"on holiday|happy|glad|sad)\b)(?!say\b|admit\b|confess\b|see\b|try\b|watch\b|visit\b|feel\b|know\b|"
    r"love\b|think\b|wonder\b)"
)
_CONSTRAINT = compile_pattern(
    r"(?<!\bi )(?<!\bwe )(?<!you )(?<!\bit )(?<!that )(?<!this )(?<!\bhe )(?<!she )(?<!they )(?<!there )"
    rf"(?<!somebody )(?<!someone )(?<!one )\bmust(?: always| never| only| not|n't)? {_NOT_EPISTEMIC}\w+",
    r"\b(?:i|we|you|it|they|this|that) must(?: not|n't| never| always| only| under) (?!forget|worry|have|"
    r"be confused|lose hope)\w+",
    r"\b(?:i|we|you|it) must (?:comply|stay|keep|remain|be (?:back|home|able|finished|done|ready|"
    r"there)\b.*\b(?:by|before|at|within|to)\b)",
    r"\bthere must be (?:at least|no |exactly)\b",
    r"\b(?:is|are|'re|am|'m) (?:not|never|only) (?:allowed|permitted|authori[sz]ed)\b",
    r"\b(?:is|are) (?:strictly )?(?:forbidden|prohibited|mandatory|compulsory|off[- ]limits|"
    r"non-negotiable)\b",
    r"\b(?:is|are) required (?:for|by|in|on|to|before|at)\b",
    r"(?<!\bi )(?<!\byou )(?<!n't )(?<!not )(?<!never )(?<!there )(?<!also )(?<!just )(?<!still )"
    r"(?<!would )(?<!will )(?<!'ll )(?<!we )(?<!they )(?<!what )(?<!that )\b(?:has|have|"
    rf"needs) to {_MUST_DO}\b(?! (?:said|honest|fair|a |an |the |something|someone|fun|nice|lunch|dinner|"
    r"another|more))",
    r"\bwe (?:need|have) to (?:keep|comply|stay|remain|support|retain|preserve)\b",
    r"\b(?:we|i|you) (?:can't|cannot|can not|may not|mustn't) (?:(?:use|eat|drink|drive|spend|store|"
    r"share|exceed) (?!it\b|this|that|another|any ?more|all)|take (?!it|this|that|any ?more|you|him|her|"
    r"them)|work (?:on|after|before)|fly|travel|lift)\b",
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
    r"minimum(?: [\w-]+){0,3}) (?:is|of) (?=\S* ?\S* ?(?:\d|at most|monday|tuesday|wednesday|thursday|"
    r"friday))",
    r"\bonly accepts? (?:\w+ ){0,3}(?:up to|below|under|with)\b",
    r"\bunder no circumstances\b",
    r"^no (?!problem|issue|error|failure|crash|complaint|idea|change|news|luck|worr|doubt|need|rush|one|"
    r"trouble|sign)(?:[\w-]+ ){1,4}(?:before|after|during|on|without|over|under|are (?:allowed|"
    r"permitted))\b",
    r"\bthat no [\w-]+ (?:[\w-]+ )?(?:happen|take place|may|are (?:allowed|made))\b",
    r"\ballergic to\b",
    r"\b(?:policy|contract|lease|law|licen[cs]e|sla|landlord|client|customer|auditor|spec|specification|"
    r"regulation|insurance)s? (?:strictly )?(?:requires?|forbids?|demands?|insists?|prohibits?|"
    r"does not allow|doesn't allow|do not allow|don't allow)\b",
    r"\b(?:we|i) only have \d",
    r"\bhard requirement\b",
    r"\bnobody (?:\w+ ){0,3}may\b",
    r"\b(?:we|you) may only\b",
)
_USER_CONSTRAINT = compile_pattern(
    rf"^(?:please )?(?:always|never) (?!say never|ever|mind){_ALWAYS}\b",
    rf", (?:please )?never (?!mind|ever|say){_ORDERED}\b",
    rf"^you have to {_ORDERED}\b",
    rf"^(?:please )?(?:do not|don't)(?: ever)? {_ORDERED} (?!that\b|it\b|this again)",
    rf"\b(?:told|asked) you (?:to )?(?:never|always|not) to {_ORDERED}\b",
    rf"\btold you (?:never|always) to {_ORDERED}\b",
)
_OF_OURS = re.compile(
    r"^your |^you (?:are not allowed|may not|cannot|can't|may only)|\bin this (?:project|repository|repo|"
    r"codebase|folder|house|team)\b",
    re.IGNORECASE,
)
"""Words by which an assistant's sentence is about the owner's things, not about things in general."""
_UNCONSTRAINED = compile_pattern(
    r"\b(?:doesn't|don't|does not|do not|didn't|did not) (?:have|need) to\b",
    r"\bno limit\b|\bunlimited\b|\bit depends\b|\bsome holidays\b",
    r"\bmust be an? (?:easier|better|other|simpler)\b",
    r"^(?:you|that|this|it|he|she|they) must be (?!at|in|on|no|less|more|able|signed|sent|done|ready|"
    r"finished|kept)\b",
    r"\b(?:knights|king|queen|hero|character)s? must\b",
)


def is_constraint(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what must be, or must not."""
    if _UNCONSTRAINED.search(masked) or len(masked.split()) < 3:
        return False
    if speaker == "assistant":
        return _OF_OURS.search(masked) is not None and _CONSTRAINT.search(masked) is not None
    return _CONSTRAINT.search(masked) is not None or _USER_CONSTRAINT.search(masked) is not None


# -- preferences -----------------------------------------------------------------------------------------

_HOW = (
    r"(?: really| much| strongly| generally| usually| always| still| personally| also| definitely|"
    r" absolutely| do| just| simply| tend to| mostly)*"
)
_NOT_LIKED = (
    r"(?!(?:was|were|is|are) |(?:these|those|this|that) \w|(?:it|this|that|you|him|her|them)\s*(?:[!.,;]|"
    r"$|so much|very much|too)|(?:that|this|your|the) (?:idea|suggestion|new|updated|latest|second|first|"
    r"third|last|title|version|draft|layout|tone|plan|answer|result|sound|look|way|analysis|approach|"
    r"work|job)\b|how |where |what |to (?:ask|say|admit|bother|interrupt|hear|know|see (?:how|what|if)|"
    r"break|be that)|not to (?:say|answer|speculate|talk)|the (?:way|look|sound) (?:you|of))"
)
_PREFERENCE = compile_pattern(
    rf"\b(?:i|we){_HOW} (?:hate|dislike|detest|loathe|love|enjoy|adore|like) {_NOT_LIKED}\w",
    rf"\b(?:i|we){_HOW} (?:prefer|favou?r) {_NOT_LIKED}\w",
    r"\b(?:i|we)(?:'d| would)(?: much| really)? (?:prefer|rather) (?!not (?:say|answer|to say))\w",
    rf"\b(?:i|we) (?:do not|don't|really don't|do n't) (?:really )?(?:like|enjoy|love) {_NOT_LIKED}\w",
    r"\bi (?:do not|don't) want (?:to see|you to|any)\b",
    r"\b(?:i|we) (?:really )?(?:can't|cannot) stand (?!by|it\b|up|in\b|here)",
    r"\b(?:i'm|i am|we're|we are) (?:really )?(?:not )?a (?:big |huge |great )?fan of\b",
    r"\bmy (?:(?:absolute|all-time) )?(?:favou?rite|preferred) (?!part|bit|scene|line|moment)"
    r"(?:[\w-]+ ){1,3}(?:is|are) (?!wrong|missing|broken|closed|gone|back)",
    r"\bi'd like you to (?:always|never)\b",
    r"\bi'd love it if\b",
    r"\bi want (?:all|every|each|my|your) [\w-]+ (?:[\w-]+ )?(?:in|as|to be|with|without)\b",
    r"\bi wish you (?:would|wouldn't)\b",
    r"\b(?:i'm|i am) more comfortable with\b",
    r"\bworks? best for me\b",
)
_ANSWERED = any_of(
    r"""
    answer, reply, respond, speak, talk, write, use, call, address, start, begin, end, add, put, give,
    show, keep, send, format, skip
    """
)
_STANDING = compile_pattern(
    rf"\bfrom now on,? (?:please |always |never |only |you |don't |do not )*{_ANSWERED}\b",
    rf"^(?:please )?{_ANSWERED} .*\bfrom now on\b",
    rf"^in (?:the )?future,? (?:please |always |never |don't )*{_ANSWERED}\b",
    r"^(?:please )?call me (?-i:[A-Z])\w+(?:[.!,]|$)",
    r"^(?:please )?stop (?:using|adding|writing|putting|calling|rewriting|apologi[sz]ing|repeating|"
    r"summari[sz]ing|explaining|ending|starting|sending|giving|suggesting|including|inserting|formatting|"
    r"wrapping|doing that, i)\b",
    rf"^(?:please )?{_ANSWERED} .*\bwhen(?:ever)? you (?:write|answer|reply|explain|show|talk)\b",
    rf"^when(?:ever)? you (?:write|answer|reply|talk|send|show|explain)\b[^,]*, (?:please )?{_ANSWERED}\b",
    rf"^(?:please )?(?:always|never|don't ever|do not ever) {_ANSWERED}\b.*\b(?:me|your|answers?|repl(?:y|"
    r"ies)|emojis?|german|english|french|spanish|italian|dutch|units|bullet|tone|markdown)\b",
)
_AGENT_PREFERENCE = compile_pattern(
    r"^(?:since |because |i've noted that |i noted that |noted: |you (?:said|told me)"
    rf"(?: that)? )?you{_HOW} (?:prefer|like|love|hate|dislike|enjoy|don't like|"
    rf"do not like) {_NOT_LIKED}(?!to see|me to|another)\w",
    r"^your (?:favou?rite|preferred) (?:[\w-]+ ){1,3}(?:is|are)\b",
)


def is_preference(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what its speaker, or the user, likes."""
    if speaker == "assistant":
        return _AGENT_PREFERENCE.search(masked) is not None and not masked.endswith("!")
    return _PREFERENCE.search(masked) is not None or _STANDING.search(masked) is not None
