"""Rules for sentences that tell of a failure or a fix."""

from __future__ import annotations

import re

from reverie.consolidation.rules.wording import Speaker, any_of, compile_pattern

# -- failures --------------------------------------------------------------------------------------------

_THING = any_of(
    r"""
    builds?, tests?, test suite, jobs?, deploy(?:ment)?, migration, pipeline, upload, download, import,
    export, backup, install(?:ation)?, login, request, query, script, command, server, app, service,
    page, payment, release, api, sync, check, compile, booking, card, order, application, push, commit,
    transaction, connection, search, endpoint, website, site
    """
)
_FAILING = compile_pattern(
    r"(?<!\ba )(?<!the )(?<!any )(?<!each )(?<!of )(?<!all )(?<!those )(?<!these )(?<!that )"
    r"(?<!which )\b(?:fails|failed|failing)\b(?! (?:over|uploads?|requests?|logins?|attempts?|jobs?|"
    r"tests?|fast|states?|to (?:mention|notice|see|failures))\b)",
    rf"\b{_THING}s? (?:still )?fail\b",
    r"(?<!the )(?<!of )(?<!these )(?<!many )\b(?:crashes|crashed|crashing)\b",
    r"\bcrash (?:on|at|when|after|during)\b",
    r"\b(?:times|timed) out\b|\baborted\b|\bgot stuck\b",
    r"\b(?:don't|do not) (?:work|start|open|load)\b|\b(?:doesn't|does not|didn't|did not) (?:work|help|"
    r"run|start|open|load|respond|pass|compile|boot|charge)\b(?! (?:on weekends|at|there|for|as a|in "
    r"(?:an|the) office))",
)
"""Words that tell of a failure where `_OURS` matches too; otherwise they tell of things in general."""
_OURS = compile_pattern(
    r"\b(?:i|i'm|i've|my|we|we're|our|us|again|still|now|today|tonight|yesterday|once|twice|times|"
    r"this morning|last night|since|on ci|on startup|because|after|error|exception|status|code|CODE|step|"
    r"halfway|nights?|shard|checks?|windows|linux|macos|ios|android|check|it|with (?:an? )?\w*(?:error|"
    r"exception|violation|e[A-Z]{3,}))\b",
    rf"\b{_THING}\b",
    r"\w+(?:Error|Exception)\b|\b\w+_\w+\b|\b[\w/-]+\.\w{1,5}\b|\b[45]\d\d\b|\b(?-i:E[A-Z]{4,})\b",
    r"\bwhen i\b|\bthe (?:app|heating|light|alarm|parser|boiler|printer|dishwasher|command|door)\b|"
    r"^(?:the )?(?:command|npm|pip|cargo|make)\b|^\w+ing\b.* fails\b",
)
_FAILURE = compile_pattern(
    r"\bsegmentation fault\b|\bstack overflow\b|\bout of memory\b|\bchokes on\b|\bcrashloopbackoff\b",
    r"\bstopped (?:working|responding|heating|charging)\b|\bbroke down (?!into|the|in to)",
    rf"\b{_THING} (?:is|are|was|were|looks|has been) (?:completely |still |now )?(?:broken|down|red|stuck|"
    r"corrupted|unreachable)\b",
    r"\b(?:is|are|was|were) (?:completely |still |now )?(?:broken|corrupt|corrupted) (?:in|on|since|"
    r"again|after|now)\b",
    r"\b(?:is|are|was|were) corrupted\b",
    rf"\b(?:broke|breaks) the (?:[\w-]+ )?(?:{_THING}|files?|layout|config)\b",
    r"\b(?:didn't|did not) (?:rise|arrive|help)\b(?! (?:himself|herself|themselves|that))",
    r"(?<!\bhe )(?<!she )(?<!they )(?<!\bi )\b(?:isn't|is not|aren't|are not|wasn't|was not|"
    r"not) working\b(?! (?:today|tomorrow|on \w+day|at |as |for |with (?:me|you|us)))",
    r"\bwon't (?:start|connect|boot|open|load|turn on|compile|build|charge|print|play)\b",
    r"\b(?:can't|cannot|could not|couldn't) (?:connect|import|parse|resolve|compile)\b",
    r"\b(?:can't|cannot|could not|couldn't) (?:open|load|reach|find|read) (?:the |a |any |my |our )?"
    r"(?:[\w-]+ )?(?:module|file|image|host|package|path|table|class|symbol|command|server|page|database|"
    r"daemon|header)\b",
    r"\bkeeps? (?:crashing|disconnecting|failing|dropping|freezing|restarting|getting (?:an? |the )?\w* ?"
    r"(?:error|fault))",
    r"\bkeep getting (?:an? |the )?[\w ]*(?:error|fault|exception|timeout)",
    r"\bran out of (?:memory|disk|space)\b|\b(?:had|have) an outage\b",
    r"\b(?:server|site|website|service|api|network|cluster|database|node|wi-?fi|internet) went down\b",
    r"\b(?:returns?|returned|returning|with status|with an? (?:http )?)(?: an?| the|"
    r" me)* [45]\d\d\b(?! [a-z]+s\b)",
    r"\b(?:get|got|getting|gives? me) an? [45]\d\d\b(?! [a-z]+s\b)|\b(?:get|got|getting) an? timeout\b",
    r"\b(?:exits?|exited) with (?:exit )?(?:code|status) [1-9]",
    r"\b(?:throws?|threw|raised|gives?|gave|shows?|get|got|getting|see|seeing|with) (?:me )?(?:an? |the |"
    r"this |this same )?(?:\w+ )?(?:\w+Error|\w+Exception|error code)\b",
    r"\b(?:i|we)(?:'m|'re| am| are)? (?:get|got|getting|see|seeing|keep getting) (?:an? |the |this |"
    r"these )?[\w -]{0,30}(?:errors?|exceptions?)\b(?! (?:handling|message is clear))",
    r"^(?:[A-Z]\w*(?:Error|Exception)|Error|error|fatal|FATAL|ERROR): ?\S",
    r"\bpermission denied\b|\bconnection (?:\w+ ){0,4}(?:was |is )?refused\b",
    rf"\b{_THING} (?:was|were|got|is) (?:\w+ )?(?:rejected|declined|refused)\b",
    r"\b(?:flight|train|order|booking) (?:was|got) cancell?ed\b",
    r"\bhangs (?:at \d|when|forever|during|while|on (?:start|boot|load))",
    r"\b(?:machine|pipe|tap|boiler|roof|faucet|sink|radiator|dishwasher|heater) (?:is )?leak(?:s|ing)\b",
    r"\bnothing happens when\b",
)
_NO_FAILURE = compile_pattern(
    r"(?:\bnot|n't|\bnever|\bno longer|\bwithout|\bzero|\bno|\bcannot) (?:\w+ )?(?:fail|fails|failed|"
    r"failing|crash|crashes|crashed|crashing|break|errors?|exceptions?|failures?)\b",
    r"\b(?:may|might|could|would|should|will|must|can|must not|to) (?:\w+ )?(?:fail|crash|break|time out|"
    r"not work)\b",
    r"\b(?:he|she|they) (?:has |have |had )?(?:\w+ )?failed\b",
    r"\b(?:when|whenever|where|after|before|until|as soon as|every time) (?:the |a |an |your |my |any )?"
    r"(?:[\w-]+ ){0,5}(?:fails|crashes)\b",
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
    r"\b(?:verif|check|ensur|assert|test|guarante)\w* that\b|\bbroken down\b|\bmanageable\b",
    r"\b(?:never|no longer|not|won't|doesn't|cannot|can't) (?:run|runs|running|go|goes) (?:out|down)\b",
    r"\bfailed to mention\b|\bbreak(?:s)? down (?:the|this|into)\b",
)


_CLAUSE = re.compile(r"[,;:]\s|\s(?:but|and|until)\s")


def is_failure(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells of something that did not work."""
    if _NO_FAILURE.search(masked):
        return False
    if is_fix(masked, speaker):
        return any(_has_failure(part) for part in _CLAUSE.split(masked) if not _FIX.search(part))
    return _has_failure(masked)


def _has_failure(masked: str) -> bool:
    if _FAILURE.search(masked):
        return True
    return _FAILING.search(masked) is not None and _OURS.search(masked) is not None


# -- fixes -----------------------------------------------------------------------------------------------

_TROUBLE = any_of(
    r"""
    problems?, issues?, bugs?, errors?, crash(?:es)?, leaks?, outage, failures?, regression, warnings?,
    conflict, deadlock, race(?: condition)?, glitch, typo, flicker(?:ing)?, squeak(?:ing)?, 40[0-9]s?,
    50[0-9]s?
    """
)
_FIX = compile_pattern(
    r"\b(?:i|we)(?:'ve| have| just| also| finally| now)* (?:fixed|solved|cured) (?!(?:an? |the |my |"
    r"this |another )?(?:crossword|riddle|puzzle|date|price|mystery|case|equation|exercise|sudoku|maze|"
    r"quiz|myself|hair|dinner|lunch|breakfast))\w",
    r"\b(?:i|we)(?:'ve| have| just| also| finally| now)* resolved (?:the|this|that|it|an?) ?"
    rf"(?:[\w-]+ ){{0,3}}(?:{_TROUBLE}|by)\b",
    r"^(?:[\w-]+, )?(?:[a-z-]+ly |re-?)?[a-z-]+ing\b.{0,90}?(?<!not )(?<!n't )\b(?:fixed|fixes|solved|"
    r"solves|cured|resolved|resolves|did the trick|got rid of|stopped (?:the|it)|brought .{1,40} back|"
    r"made .{1,40} go away)\b",
    r"^(?:simply |just )?[a-z]+ing (?:it |that |the \w+ )?(?:helped|worked)\b",
    r"\b(?:fixed|solved|resolved|cured) (?:it|this|that)\b",
    r"\b(?:fixed|fixes|solved|solves|resolved|resolves) (?:the|my|our|all|both) "
    rf"(?:[\w'-]+ ){{0,3}}{_TROUBLE}\b",
    r"\bthe (?:fix|solution|workaround|trick|cure|remedy) (?:was|has been) (?:to|an?|that we|simply|by)\b",
    r"^the (?:fix|workaround) is (?:to|simply)\b",
    r"^(?:solved|fixed|resolved)(?: it)?(?:[:,]| in | by | with | the | an? )",
    rf"\b(?:{_TROUBLE}|it|this|that)(?: \w+){{0,2}} (?:is|was|are|were|has been|have been|got|and is|"
    r"seems) (?:now |all |finally )?(?:fixed|resolved|solved)\b(?! in the (?:last|next|first|second|"
    r"final)| (?:price|rate|cost|number|size|term)| at)",
    rf"^(?:the )?(?:[\w-]+ ){{0,3}}{_TROUBLE} (?:now |finally )?(?:fixed|solved|resolved) (?:by|with|after)\b"
    r"(?!.*\b(?:is|are|was|were) )",
    r"(?<!price )(?<!rate )(?<!date )(?<!cost )\b(?:is|are) (?:now )?fixed(?: now| since| after|[;:,.!]|"
    r"$)",
    r"(?<!\bhe )(?<!she )\b(?:works|working|pass|passes|boots|builds|runs) (?:fine )?again\b",
    r"\bit works now\b|\bworks (?:now|fine) (?:that|since|after) i\b|\bpass(?:es)? (?:after|since|"
    r"now that) (?:i|we)\b",
    r"\bworks after \w+ing\b|\bgot (?:it|the \w+|them)(?: \w+){0,2} (?:to work|working)\b",
    r"\bdid the trick\b|\bmade the (?:\w+ )?" + _TROUBLE + r" go away\b",
    rf"\b{_TROUBLE} (?:has |have )?(?:went|gone) away (?:after|when|since|with)\b",
    r"\brolled back\b.*\b(?:stopped|gone)\b",
    r"\b(?:deleting|removing|clearing|restarting|reinstalling|adding|renewing|upgrading|downgrading) "
    r"(?:it|them|that|the \w+) (?:helped|fixed|solved|resolved)\b",
    r"\broot cause was\b.*\b(?:corrected|fixed|solved|resolved|changed|renewed|replaced)\b",
)
_NO_FIX = compile_pattern(
    r"(?:\bnot|n't|\bnever|\bhardly|\bnothing|\byet to be) (?:been |yet |really |completely |fully |be )?"
    r"(?:fixed|solved|resolved|helped?|work(?:ing|ed)?|pass(?:ed)?)\b",
    r"\b(?:to|can|could|should|will|would|may|must|won't) (?:be |get |have )?(?:fix|fixed|solve|solved|"
    r"resolve|resolved)\b",
    r"\b(?:he|she|they) (?:has |have |had )?(?:fixed|solved|resolved)\b",
    r"\bexercise (?:\w+ )?(?:is|\d)|\bcrossword\b|\bbrothers?\b.*\bresolved\b|\bchapter\b",
    r"\bwhen (?:the|it) (?:\w+ )?is (?:fixed|resolved)\b",
    r"^(?:interesting|amazing|exciting|charming|missing)\b",
    r"\bhelped (?:me|us|a lot)\b|\b(?:price|rate|date|cost|time|day)s? (?:is|are) fixed\b",
    r"\b(?:has|have) been fixed in (?:version|release|v?\d)",
    r"\bcorrectly (?:solved|fixed|resolved)\b|\b(?:get|getting) (?:it |them |the \w+ )?(?:fixed|solved)\b",
    r"\btried\b.*\b(?:but|without)\b",
)


def is_fix(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells what fixed something, or that it works again."""
    del speaker
    return _FIX.search(masked) is not None and not _NO_FIX.search(masked)
