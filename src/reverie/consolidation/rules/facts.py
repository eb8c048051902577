"""Rules for what users say once of themselves, their people, their work and how they want to be answered.

A statement is recognized by its grammar: a first person or "my ..." at the beginning of a clause, the present tense,
and a value of the right form. Patterns are matched with text as `fold_text` writes it. English, and the plain forms of
German, Spanish and French.
"""

from __future__ import annotations

import re
from typing import Literal

from reverie.consolidation.rules.sentences import is_self_contained, strip_quotations
from reverie.consolidation.rules.wording import Lazy
from reverie.domain.record import STANDING, Kind
from reverie.domain.text.calendar_words import MONTHS, WEEKDAYS, fold_text
from reverie.domain.word_lists import parse_word_set

Statement = Literal["preference", "constraint", "decision", "fact"]

_CLAUSE = (
    r"(?:^|[,;:.(] ?|[–—-] | (?:and|but|so|because|since|und|aber|denn|also|y|pero|porque|asi que|et"
    r"|mais|car|donc) )"
)
"""Pattern for the text before the beginning of a clause."""


def _compile(*parts: str) -> Lazy:
    return Lazy("|".join(f"(?:{part})" for part in parts))


_MINE = r"(?:my|our|mein\w{0,2}|unser\w{0,2}|mi|nuestr[oa]|mon|ma|notre) (?:[\w'-]+ ){0,3}?[\w'-]+"
"""Somebody or something of the speaker's: "my mother in law"."""

_THIS = r"(?:this|that|the|your|dies\w*|der|die|das|dem|deine\w?|la|el|est[ea]|tu|le|cette?|ta|ton)"
_MATERIAL = (
    r"(?:answer|reply|message|question|riddle|puzzle|picture|photo|image|file|attachment|log|list|table|text|sentence"
    r"|word|line|paragraph|draft|ticket|screenshot|version|bild|foto|datei|anhang|liste|text|satz|ratsel"
    r"|imagen|archivo|frase|respuesta|fichier|phrase|reponse|image)"
)
"""Nouns for what a conversation is about: what is said of it does not hold elsewhere."""

_NO_FACT = _compile(
    r"^(?:wh(?:o|at|ere|en(?! (?:i|you|we)\b)|y|ich|ats)|how|is|are|am|do|does|did|can|could|should|shall"
    r"|would|will|have you|"
    r"w(?:ie|as|o|er|ann|arum|elche[nrs]?)|soll|kann|darf|weisst|weißt|hast|que|como|donde|cuando|cual"
    r"|puedo|tengo que|sabes|"
    r"quel\w*|comment|pourquoi|ou|quand|est-ce|tu te souviens|peux)\b",
    r"\b(?:if|whether|suppose|imagine|hypothetically|pretend|maybe|perhaps|probably|possibly|might|could "
    r"be|not sure|no idea|"
    r"i (?:think|guess|believe|bet|doubt|wonder|hope|wish)|thinking (?:about|of)|considering|would be|let "
    r"me check)\b",
    r"\b(?:wenn ich|falls|vielleicht|eventuell|wahrscheinlich|ich glaub\w?|ich denke|mal sehen|nachschauen"
    r"|angenommen|irgendwann|"
    r"ware ich|hatte ich|wurde ich)\b",
    r"\b(?:quizas?|tal vez|a lo mejor|igual nos|igual me|creo que|supongo|puede que|si (?:yo )?(?:viviera"
    r"|fuera|tuviera)|"
    r"todavia lo|no me hagas caso|ojala)\b",
    r"\b(?:peut-etre|il me semble|je crois|je pense|(?<!meme )si j(?:'\w+|e)|a verifier|probablement)\b",
    r"\b(?:used to|when i was|as a (?:kid|child|student|teenager)|years ago|back in|formerly|in the past"
    r"|fruher|als kind|damals|"
    r"antes (?:yo )?(?:trabajaba|vivia|era)|de nino|de nina|quand j'etais|avant,? j)\b",
    r"\b(?:just this once|only this (?:time|once)|this (?:one )?time|for (?:this|today|now)\b|nur (?:dies"
    r"|heute)|diesmal|"
    r"for (?:the|this|that) (?:next|one|email|letter|text|answer|question|task|chat)|for (?:now|once)|in "
    r"this (?:chat|email|answer|reply|one)|"
    r"this (?:answer|reply|email|text|letter|paragraph|table|list|one)|ausnahmsweise|nur hier|in dieser "
    r"(?:mail|antwort)|"
    r"en esta (?:respuesta|carta)|para este|dans cette reponse|pour ce(?:tte)?|"
    r"dieses mal|solo (?:esta|por) |por esta vez|cette fois|pour une fois|juste pour)\b",
    r"\b(?:yeah right|haha\w*|hihi|lmao|rofl|mdr|ptdr|jaja\w*|jeje\w*|just kidding|jk)\b|\ballergi\w+ "
    r"(?:to|gegen|a|al|au|aux) (?:mondays?|montage?|meetings?|work|people|lunes|lundis?)\b|\b(?:my|mein\w?"
    r"|mi|mon) [\w ]{1,20} (?:is|ist|es|est) (?:my|mein\w?|mi|mon)\b"
    r"|[\U0001F600-\U0001F64F\U0001F910-\U0001F92F\U0001F970-\U0001F97A]",
    r"\b(?:in (?:my|the|this) (?:novel|story|game|book|dream|film|movie|example)|roleplay|role play|my "
    r"character)\b",
    r"\b(?:how (?:do|can|should) i|what (?:does|do|is|should|can|would|album|song|film)|why (?:is|does|do"
    r"|did)|who (?:sang|said|wrote)|"
    r"is (?:it|that|this) (?:true|ok|okay|safe|normal|legal|bad))\b",
    r"\b(?:do|use|say|mean|like|need|want|eat|have) (?:that|this|it|these|those)[.!]*$",
    r"\b(?:what if|say i|say we|let's say|lets say|assume|assuming|stell dir vor|nehmen wir an|gesetzt"
    r"|pongamos|imagina|supon\w*|imaginons|supposons|disons)\b",
    r"\b(?:once decided|worst idea|back then|ages ago|years? ago|last year we)\b",
    r"\b(?:don't|do not|didn't|never) (?:think|believe|know|suppose|say|said)\b|\bglaube nicht|\bno creo\b"
    r"|\bne (?:crois|pense) pas\b",
    r"^(?:oh|yay|wow|great|brilliant|wonderful|fantastic|lovely|perfect)\b.*\bi (?:\w+ ){0,2}?(?:love|adore"
    r"|enjoy|prefer|like)\b",
    r"^(?:had|were) (?:i|we|my|our)\b|\b(?:would|could|should)(?:n't)? have\b"
    r"|\b(?:almost|nearly) (?:\w+ed|bought|chose|went|got)\b|\bcasi (?:nos|me|se)\b|\bfailli\b",
    r"^(?:you are|you're|du bist|eres|tu es) (?:an?|eine?|una?|une?)\b|^(?:act as|answer in character)\b",
    rf"\b(?:in|on|to|of|en|in|im|auf|dans|sur|de) {_THIS} (?:\w+ ){{0,2}}?{_MATERIAL}\b"
    rf"|^(?:\w+ ){{0,3}}?{_THIS} {_MATERIAL} (?:is|are|was|has|ist|sind|es|esta|est)\b",
)
"""Sentences that state nothing: questions, guesses, what held once, what holds this once, jokes and fiction."""

_IRREALIS = re.compile(r"\b(?:hätten?|wären?|würden?|könnten?)\b", re.IGNORECASE)
"""Subjunctives of German, which are other words without their dots."""

_REPORTED = Lazy(
    r"^(?:his|her|their|he|she|they)\b|"
    r"\b(?:he|she|they|it|someone|somebody|people|everyone|everybody|"
    r"(?:my|the|an?|our|some|most|el|la|una?|mi|le|une|mon|ma|der|die|mein\w?) (?:(?!i\b|we\b"
    r"|you\b)[\w'-]+ ){0,4}?(?!i\b|we\b|you\b)[\w'-]+) "
    r"(?:says?|said|told|tells|wrote|writes|asks?|asked|wants?|wanted|prefers?|thinks?|claims?|insists?"
    r"|recommends?|"
    r"meint\w?|meinte|sagt\w?|sagte|will|wollte|dice|dijo|quiere|prefiere|pide|dit|veut|prefere)\b"
)
"""Pattern for statements and wishes of others."""

_TASK = _compile(
    r"^(?:please |pls |can you |could you |bitte |por favor,? )*(?:write|draft|translate|summari[sz]e"
    r"|rewrite|proofread|explain|generate|give me|show me|list|"
    r"compare|find|search|help|tell me|describe|fix|check|create|add|implement|continue|finish|shorten"
    r"|rephrase|make|convert|reply to|imagine|"
    r"ubersetz\w*|fass|schreib|erklar\w*|korrigier\w*|zeig|mach|such|corrige|traduce|resume|escribe|haz"
    r"|dame|explica\w*|busca|traduis|ecris|"
    r"corrige|explique|fais|donne|cherche)\b"
)
"""Beginnings of tasks: what follows is material, not a statement."""

_HEAD = Lazy(r"^(?P<head>[^:“”]{1,60}?) ?: ")
_ALLOWED_HEAD = _compile(
    r"\b(?:remember|note|record|reminder|rule|next time|fyi|btw|info|decision|decided|final|important|heads up|context"
    r"|careful|also|so|"
    r"merk\w*|notier\w*|wichtig|entscheidung|apunta|anota|recuerda|nota|ojo|importante|decision|retiens|a "
    r"noter|important|"
    r"is|are|was|got|have|has|am|i'm|ist|sind|hab\w*|tengo|es|esta|j'ai|est|ai)\b"
)
"""Words that may stand before a colon. After any other word comes a quotation, a title or an error message."""

_VALUE_OF_MINE = Lazy(
    r"^(?:also |and |btw )*(?:my|our|mein\w*|unser\w*|mi|nuestr\w*|mon|ma|notre) (?:[\w'-]+ ){0,3}?[\w'-]+ ?: "
    r"(?!\w+ ?: )(?!.*\b(?:i|we|never|always|is|are|ich|wir|yo|je|on|nie|immer|nunca|siempre|jamais|toujours)\b)"
)
"""Something of the speaker's and its value: "my standup: 9:30"."""

# -- instructions ----------------------------------------------------------------------------------------

_ANSWERING = (
    r"(?:answer|reply|respond|speak|talk|write|explain|use|call|start|begin|end|add|put|give|show|keep"
    r"|send|format|skip|"
    r"cite|quote|ask|tell|include|mention|check|correct|suggest|schedule|translate|convert|assume|avoid"
    r"|leave)"
)
_HABIT = (
    r"(?!\w+(?:ed|ing)\b|\w+[^s]s\b|(?:been|had|seen|gone|done|heard|knew|got|a|the|in|on|at|so|such|gonna"
    r"|mind|again|ever|been|too|"
    r"that|this|it|as|there|quite|really|sure|fun|better|more|less|one|enough|easy|good|nice)\b)[a-z]{2,}\b"
)
_NOT_THIS = (
    r"(?!(?:know|think|want|get|understand|see|care|like|love|mind|have|need|remember|believe|feel|even"
    r"|really|worry|forget|be|bother|"
    r"you|they|we|i|do|give|it|that|this|agree|suppose|trust|wanna)\b)[a-z]+\b"
    r"(?= (?:any\w*|my|our|your|\w{3,}s|[\w ]+ (?:before|after|without|unless|in (?:tests|code"
    r"|production))|.*(?:, (?:we|i|because|since|our|my)\b| because ))\b)"
    r"(?!.*\b(?:here|hier|this|that)\b)"
)
_GERMAN_ORDER = (
    r"(?:antworte|schreib|nutze?|verwende|sprich|rede|gib|zeig|nenn|frag|erklar|halte?|mach"
    r"|benutze?|setz|formatier|rechne|lass)\w*"
)
_INSTRUCTION = _compile(
    rf"{_CLAUSE}(?:please |pls |and |just )*(?:always|never|don't ever|do not ever) {_HABIT}",
    rf"{_CLAUSE}(?:please |pls )?(?:don't|dont|do not) {_NOT_THIS}(?= )",
    rf"{_CLAUSE}(?:please |pls )?(?:stop|quit) (?!doing (?:that|this|it)|being|trying)[a-z]+ing\b",
    rf"\b(?:from now on|going forward),? (?:please|always|never|only|just|you|i (?:want|need|prefer)|no"
    rf"|don't|in [a-z]+|{_ANSWERING})\b",
    rf"{_CLAUSE}(?!from|going)(?:please )?(?:{_ANSWERING}\b|(?!.*\b(?:it'?s|is|are|will|has|was|were|we"
    rf"|they|\w+ed)\b)).*\b(?:from now on|going forward)[.!]*$",
    rf"\bin (?:the )?future,? (?:please )?{_ANSWERING}\b",
    rf"{_CLAUSE}(?:please |pls )?{_ANSWERING}\b.*\b(?:every time|each time|whenever|when(?:ever)? (?:i|you"
    rf"|we) \w+)\b",
    rf"{_CLAUSE}(?:please |pls )?{_ANSWERING} .*\balways[.!]*$|^[^,?]{{3,60}}, always\b(?! the)",
    rf"{_CLAUSE}(?:whenever|every time|each time|when) (?:i|you|we) [^?]+?(?:,? i (?:only |just |always "
    rf")?(?:want|need|prefer)|"
    rf", (?:please|just|always|never|don't|{_ANSWERING}))\b",
    rf"{_CLAUSE}(?:please |just )*call me (?!the\b|an?\b|when|if|back|later|tomorrow|crazy|at\b|on\b|maybe"
    rf"|in\b)(?P<called>\w+)",
    rf"{_CLAUSE}(?:please |pls )?(?:answer|reply|respond|talk to me|speak)(?: to)?(?: me)? in "
    rf"(?P<language>\w+)\b(?! (?:this|that))",
    rf"{_CLAUSE}(?:i go by|you can call me|(?:everyone|everybody|people|friends) (?:just )?calls? me) "
    rf"(?!the\b|an?\b)\w+",
    r"^(?:please |bitte |also )?(?:no more|no|keine?n?|nada de|pas d(?:e |')|plus d(?:e |'))\s?(?:\w+ "
    r")?(?:emojis?|smileys?|bullets?|bullet points|lists?|tables?|"
    r"markdown|disclaimers?|preambles?|fluff|small talk|floskeln|listen|tabellen|listas|tablas|listes"
    r"|tableaux|exclamation\w*|ausrufezeichen)\b",
    r"^(?:short|brief|concise|one.line|kurze|respuestas cortas|reponses courtes)\b.*\b(?:answers?|replies"
    r"|antworten|por favor|please)\b",
    rf"^ask (?:me )?(?:first|before)\b|{_CLAUSE}my pronouns are\b",
    r"^(?:no|nope)[,.!]? (?:please )?(?:use (?!the\b|that|this|it\b|your)|we use |we're on |i use |it'?s "
    r"(?:called |spelled |spelt )?(?P<spelled>\w+))",
    r"^i(?:'ve)? (?:already )?told you (?:that )?(?:my|our|we|i|the|to|not)\b.{3,}",
    r"^(?:ok(?:ay)?,? |but |and |so |also |good,? )*next time\b[,:]? "
    r"(?!i\b|we\b|you (?:are|see)|(?:he|she|they|it)\b)\w+"
    r"|\bfirst,? next time\b",
    r"^(?:(?:the |a |one )?(?:house|team|ground|our|my|new) rules?|rules? (?:here|for you|at work|in this \w+))"
    r"(?: [\w']+){0,8} ?: \w+ \w+ \w+",
    rf"{_CLAUSE}(?:please |pls )?(?:keep|make) (?:your |the |all |my )?(?:answers?|repl(?:y|ies)|responses?) "
    r"(?:short|brief|concise|simple|under|below|within|to \d)",
    rf"{_CLAUSE}(?:please |pls )?address me (?:as|by|with) \w+",
    # German
    r"(?:^|[,;.] )(?:bitte )?(?:duze?|sieze?) mich\b|\bnenn(?:e|t)? mich (?!nicht|so)\w+",
    r"^(?:bitte )?(?:immer|nie|niemals) .*\w{2,}en[.!]*$|" + rf"{_CLAUSE}(?:bitte )?{_GERMAN_ORDER} (?:\w+ "
    r"){{0,3}}?(?:immer|nie|niemals) ",
    rf"{_CLAUSE}(?:bitte )?{_GERMAN_ORDER} .*\b(?:immer|jedes mal|ab jetzt|ab sofort|kunftig|in zukunft)\b"
    rf"|\b(?:ab jetzt|ab sofort|kunftig) (?:bitte|nur|immer|kein\w*|auf)\b",
    r"\bsag (?:bitte )?du zu mir\b|\bkannst mich \w+ nennen\b|^bitte (?:immer|nie|niemals)\b",
    r"^(?:bitte )?hor(?:e|t)? auf\b|^(?:bitte )?(?:antworte|rede) (?:mir )?(?:bitte )?(?:auf|in)\b",
    # Spanish
    rf"{_CLAUSE}(?:por favor,? )?(?:nunca|jamas) (?:me )?\w+[ae]s\b|^(?:por favor,? )?no me \w+[ae]s\b",
    rf"{_CLAUSE}(?:por favor,? )?(?:siempre )?(?:responde|contesta|escribe|usa|pon|habla|dame|empieza"
    rf"|explica|pregunta)\w* .*\b(?:siempre|cada vez|a partir de ahora)\b",
    rf"{_CLAUSE}(?:por favor,? )?siempre (?:responde|contesta|escribe|usa|pon|habla|dame|empieza|explica"
    rf"|pregunta)\w*\b",
    r"\b(?:a partir de ahora|de ahora en adelante),? (?:siempre|nunca|responde|contesta|usa|escribe|habla"
    r"|quiero|no|en)\w*|^cada vez que (?:te|yo|me)\b|^quiero que (?:me )?\w+[ae]s\b",
    rf"{_CLAUSE}(?:por favor,? )?(?:llamame|tuteame|tratame de) \w+|^deja de \w+r\b|^(?:responde"
    rf"|contesta)(?:me)? (?:siempre )?en \w+",
    r"^te (?:he dicho|dije) que\b|^no[,.] (?:usa|usamos|se llama) ",
    # French
    rf"{_CLAUSE}(?:s'il te plait,? )?(?:reponds|ecris|utilise|donne|mets|parle|commence|montre)\w* "
    rf".*?\b(?:toujours|jamais|a chaque fois)\b",
    r"\b(?:desormais|dorenavant|a partir de maintenant),? (?:tu|je veux|reponds|ecris|utilise|donne|mets"
    r"|parle|tutoie|ne|en)\b",
    rf"{_CLAUSE}(?:appelle-moi|tutoie-moi|vouvoie-moi)\b|^(?:reponds|ecris)(?:-moi)? en \w+|^(?:arrete"
    rf"|cesse) de \w+|{_CLAUSE}ne \w+ jamais\b",
    r"^non[,.] .*\b(?:on|nous) utilis\w+|^je t'ai dit que\b",
)

_PREFERENCE = _compile(
    rf"{_CLAUSE}ich (?:mag|bevorzuge|hasse|liebe)\b(?! (?:das|es|dich|den|die) ?$)|{_CLAUSE}ich (?:\w+ "
    rf"){{1,4}}lieber\b|\bam liebsten\b",
    rf"{_CLAUSE}(?:prefiero|me gusta|no me gusta|odio|me encanta) (?!que |eso|esto)\w+",
    rf"{_CLAUSE}(?:je prefere|j'aime|je n'aime pas|je deteste|j'adore) (?!bien ca|ca |ce |cette )\w+",
    rf"{_CLAUSE}i (?:really |much |always )?(?:like|want|prefer) (?:my|all my) \w+",
    rf"{_CLAUSE}i'd (?:much )?rather (?!not\b)\w+",
)

# -- decisions -------------------------------------------------------------------------------------------

_DECISION = _compile(
    rf"{_CLAUSE}(?:[\w ]+ )?(?:we|i)(?:'ve| have| finally| all| both|'re)* (?:agreed (?:that|on|to)|settled "
    rf"(?:on|for)|decided (?:on|that|to|against)|"
    r"(?:picked|chose|chosen|opted for|signed off on) (?!up\b|a fight))\b",
    r"^(?:final|decision|decided|entscheidung|decision final|decidido|decide) ?: ?\S",
    r"\b(?:wir haben|ich habe?|wir|ich hab) (?:uns |mich )?.*\b(?:entschieden|beschlossen|geeinigt"
    r"|festgelegt)\b",
    r"\b(?:es ist entschieden|es bleibt bei)\b",
    rf"{_CLAUSE}(?:ya )?(?:hemos|he) (?:decidido|elegido|acordado|quedado en|optado)\b|\besta decidido\b"
    rf"|{_CLAUSE}(?:decidimos|acordamos|elegimos)\b",
    r"^(?:ok |okay |so )?[\w .+-]{2,30}(?<! as)(?<! what)(?<! how)(?<! where) it is(?: then)?[.!]*$"
    r"|\b(?:the team|we all|we) voted (?:for|to)\b",
    r"^(?:ok |also |gut |vale |bon )?,? ?(?:wir nehmen|wir bleiben bei|nos quedamos con|vamos con|on part "
    r"sur|on garde|on prend) \w+",
    r"\bc'est decide\b|\b(?:on a|nous avons|j'ai) (?:finalement )?(?:decide|choisi|opte|tranche)\b",
)

# -- facts -----------------------------------------------------------------------------------------------

_MARKED = _compile(
    r"(?:^|[,;.:] ?)(?:please |pls |and |also |just |so )*(?:remember|note|keep in mind|bear in mind|don't "
    r"forget|dont forget|make a note|take note|"
    r"for the record|just so you know|for your information|fyi|heads up|merk(?:e)? dir|denk daran|denk "
    r"dran|vergiss nicht|notier(?:e)?(?: dir)?|"
    r"zur info|(?:mejor )?apunta|anota|recuerda|ten en cuenta|toma nota|que sepas|retiens|note bien|note"
    r"|n'oublie pas|rappelle-toi|sache)"
    r"(?: (?:that|this|dass|que|qu'\w+|bitte)|[:,] ?| (?=my|our|i |i'm|we|the |mein|ich|wir|mi |mon |ma "
    r"))(?! ?to\b)(?P<rest>.+)",
)
_FAMILY = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|son|daughter|kid|mother|mum|mom|father|dad|brother|sister|frau|mann|sohn"
    r"|tochter|mutter|vater|bruder|schwester|mujer|esposa|marido|hij[oa]|madre|padre|herman[oa]|femme|mari|fils|fille"
    r"|mere|pere|frere|soeur)"
)
_NAMED = _compile(
    rf"{_CLAUSE}(?:my|our|mein\w{{0,2}}|unser\w{{0,2}}|mi|mon|ma|notre) (?:[\w-]+ )?{_FAMILY} (?P<kin>\w+) "
    r"(?!(?:is|ist|esta|est) (?:\w+(?:ing|ndo)|at|in|on|here|sick|ill|late|away|back|not|so|too|im|en|ici|da)\b)"
    r"(?:is|are|has|lives?|works?|does|likes?|loves?|hates?|turns|starts|can't|goes|plays|teaches|studies|ist|hat|wohnt"
    r"|arbeitet|mag|es|tiene|vive|trabaja|est|a|habite|travaille)\b",
    rf"{_CLAUSE}(?:my|our) (?P<mine>(?:[\w'-]+ ){{0,4}}?[\w'-]+?)(?:'s name)? (?:is called|is named|are "
    rf"called|is|are|'s) (?:called |dr\.? |named )?(?P<name>\w+)",
    rf"{_CLAUSE}i (?:drive|ride) (?:an? )?(?P<vehicle>\w+)",
)
_NAME_OF_SPEAKER = _compile(
    rf"{_CLAUSE}(?:i'?m|i am|(?:hi|hello|hey),? this is) (?P<self>\w+)(?=[,.!]|$| (?:and|from|the|by the way)\b)",
    rf"{_CLAUSE}(?:[\w ]+ )?my (?:full |first |last )?name(?:'s| is) (?!on\b|in\b|the\b|not\b|\w+en\b)\w+",
    rf"{_CLAUSE}(?:ich heiss?e|ich heiße|mein name ist|me llamo|mi nombre es|je m'appelle|mon (?:nom"
    rf"|prenom) est) \w+",
)
_DOSE = (
    r"\d[\d.,]* ?(?:mg|mcg|µg|ug|ml|g|iu|ie|units?|tablets?|pills?|drops|puffs|tabletten?|tropfen|comprim\w+|gotas"
    r"|gouttes)\b"
)
_HEALTH = _compile(
    rf"{_CLAUSE}(?:i'?m|i am|i(?:'ve| have) been|{_MINE} (?:is|are)|we'?re|we are) (?:\w+ )?(?:a )?(?:vegan|vegetarian"
    rf"|pescatarian|coeliac|celiac|diabetic|allergic to|"
    r"intolerant|lactose|gluten|pregnant|expecting|deaf|blind|wheelchair|color ?blind|colour ?blind"
    r"|dyslexic|left.handed|autistic|asthmatic)\b",
    rf"{_CLAUSE}(?:i|we|{_MINE}) (?:don't|dont|doesn't|do not|does not|can't|cannot|can not|never) (?:eat"
    rf"|drink|tolerate|digest) (?!it\b|that\b|this\b|the\b|any ?more)\w+",
    rf"{_CLAUSE}(?:i|{_MINE}) (?:can't|cannot|can not|mustn't|must not) (?:have|take) "
    r"(?!it\b|that\b|this\b|the\b|any\b|an?\b|any ?more)\w+",
    rf"{_CLAUSE}(?:i|{_MINE}) (?:takes?|gets?|use|uses|am on|is on|'m on) (?:{_DOSE}|\w+ {_DOSE}"
    r"|blood|an? \w+ pen|insulin"
    rf"|an? inhaler)",
    rf"{_CLAUSE}(?:i|{_MINE}) ha(?:ve|s) (?:an? |a severe |a bad )?(?:[\w-]+ )?(?:allerg\w+|intolerance"
    rf"|diabetes|asthma|migraines?|epilepsy|adhd|celiac|coeliac)\b",
    rf"{_CLAUSE}(?:ich bin|{_MINE} ist) (?:\w+ )?(?:vegan\w*|vegetarier\w*|allergisch|schwanger"
    rf"|diabetiker\w*|linkshander\w*)\b",
    rf"{_CLAUSE}(?:ich esse|ich trinke|ich vertrage|{_MINE} isst|{_MINE} vertragt|wir essen) (?:\w+ "
    rf")?(?:kein\w*|nie)\b",
    rf"{_CLAUSE}(?:ich|{_MINE}) (?:habe?|hab|hat) (?:eine? )?\w*(?:allergie|unvertraglichkeit|intoleranz"
    rf"|asthma|diabetes|zoliakie|migrane)",
    rf"{_CLAUSE}(?:ich nehme|{_MINE} nimmt) (?:\w+ )?{_DOSE}",
    rf"{_CLAUSE}(?:i|{_MINE}) (?:takes?|injects?) (?!it\b|this|that|the\b|an?\b)[\w-]+ (?:\w+ )?"
    r"(?:daily|(?:once|twice|three times) (?:a|per) day)\b",
    rf"{_CLAUSE}(?:soy|{_MINE} es) (?:muy )?(?:alergic\w+|vegan\w+|vegetarian\w+|celiac\w+|diabetic\w+"
    rf"|intolerante)\b",
    rf"{_CLAUSE}(?:tengo|{_MINE} tiene|j'ai|{_MINE} a) (?:una? |une |de l')?(?:alergia|asma|diabetes"
    rf"|intolerancia|migranas|allergie|asthme|diabete)\w*",
    rf"{_CLAUSE}(?:no como|no bebo|tomo {_DOSE}|{_MINE} (?:se llama \w+ y )?no come|no tolero)\b",
    rf"{_CLAUSE}(?:je suis|{_MINE} est) (?:\w+ )?(?:allergique|vegan\w*|vegetarien\w*|vegetalien\w*"
    rf"|diabetique|intolerant\w*|enceinte|coeliaque)\b",
    rf"{_CLAUSE}(?:je ne mange|je ne bois|je ne supporte|{_MINE} ne mange) (?:pas|plus|jamais)\b"
    rf"|{_CLAUSE}je prends {_DOSE}",
)
"""Diet, allergies and medicines, which all advice has to observe."""

_HEALTH_OF_ANYBODY = _compile(
    r"\b(?:\w*allerg\w+|alergi\w+|\w*intoleran\w+|coeliac\w*|celia[ck]\w*|cel[ií]ac\w*|zoliak\w+|vegan\w*|vegetarian\w*|vegetari\w+"
    r"|diabet\w+)\b",
    rf"\b(?:takes?|on|nimmt|toma|prend)\b.* {_DOSE}",
    r"\b(?:can't|cannot|can not|doesn't|does not|never|must not|only) (?:eats?|drinks?)\b",
)

_FACT = _compile(
    rf"{_CLAUSE}{_MINE}(?:'s name is|'s name's| is named| heisst| heißt| heissen| heißen| se llaman?"
    r"| s'appellent?) \w+",
    rf"{_CLAUSE}{_MINE} (?:is|are) called (?!once\b|twice\b)\w+"
    r"(?=[,.!;]|$| (?:but|because|since|which|who|and \w+s)\b)",
    # birthday
    rf"{_CLAUSE}(?:{_MINE}(?:'s)?|i|ich|wir) .*\b(?:birthday|born on|born in|geburtstag|geboren)\b.*\d",
    r"\b(?:mi cumpleanos|cumplo anos|naci (?:el|en)|mon anniversaire|je suis nee?)\b.*\d",
    rf"{_CLAUSE}(?:i turn|i'?m turning|i'?m|i am|ich bin|tengo|j'ai) \d{{1,2}}(?: (?:years? old|jahre? alt"
    rf"|anos|ans))?(?=[,.!]|$| (?:on|and|und|y|et)\b)",
    # family and pets
    rf"{_CLAUSE}(?:i|we)(?:'ve| have)? (?:have|got|adopted|just got|just adopted) (?:an? |two |three |four "
    rf"|\d )(?:[\w-]+ ){{0,2}}(?:kids?|children|sons?|daughters?|"
    r"dogs?|cats?|puppy|puppies|kittens?|rabbits?|horses?|parrots?|brothers?|sisters?|twins|grandchild\w*"
    r"|greyhound|labrador|poodle|beagle|terrier)\b",
    rf"{_CLAUSE}(?:ich habe|wir haben) (?:eine?n? |zwei |drei |\d )(?:\w+ )?(?:kind\w*|sohn|sohne|tochter"
    rf"|hund\w*|katzen?|kater|geschwister|bruder|schwester\w*)\b",
    rf"{_CLAUSE}(?:tengo|tenemos) (?:una? |dos |tres |\d )(?:hij[oa]s?|perr[oa]s?|gat[oa]s?|herman[oa]s?)\b",
    rf"{_CLAUSE}(?:j'ai|on a|nous avons) (?:une? |deux |trois |\d )(?:enfants?|fils|filles?|chiens?"
    rf"|chiennes?|chats?|chattes?|freres?|soeurs?)\b",
    # work and things
    rf"{_CLAUSE}(?:i|we) (?:work|am working|teach|freelance|volunteer) (?:[\w-]+ )?(?:at|for|as|in|from"
    rf"|part|full|nights|days|shifts)\b",
    rf"{_CLAUSE}(?:i'?m|i am) an? (?!bit|lot|little|tad|sucker|loser|winner|monster|believer)(?:\w+ "
    rf")?\w*(?:er|or|ist|ian|nurse|student|vet|chef|cook|pilot|architect|accountant|consultant"
    rf"|midwife)(?=[,.;!]|$| (?:at|in|by|and|from|who|with)\b)",
    rf"{_CLAUSE}(?:i'?m|i am|we'?re|we are) on (?:an? )?(?:mac\w*|linux|windows|ubuntu|arch|debian|fedora"
    rf"|nixos|android|ios|iphone)\b",
    rf"{_CLAUSE}(?:we|our team|my team|the team) (?:always |only |all )?(?:use|deploy|ship|squash|host"
    rf"|develop|code) (?!it\b|this\b|that\b|the (?:one|time))\w+",
    r"\bin (?:this|our) (?:project|repo|repository|codebase|team)\b,? (?:the |all |we )?\w+",
    rf"{_CLAUSE}(?:i|we) (?:run|own) an? (?:[\w-]+ ){{0,3}}(?:business|shop|bakery|company|cafe|restaurant"
    rf"|store|studio|farm|agency|practice|startup|school)\b",
    rf"{_CLAUSE}(?:i study|ich studiere|estudio|j'etudie) \w+",
    rf"{_CLAUSE}(?:i'?m|i am|we'?re|we are) (?:self.employed|retired|unemployed|freelanc\w+|married"
    rf"|divorced|single|from (?!now)[a-z]+|a (?:team|family) of)\b",
    rf"{_CLAUSE}our (?:\w+ ){{1,3}}?(?:is|are|lives?|runs?|uses?|starts?|needs?|comes?|goes?) (?:in|on|at"
    rf"|with|under|behind|called|mostly|always|only|an?|the|via|through) (?!the way|way|fire|down"
    rf"|trouble)\w+",
    rf"{_CLAUSE}unsere? (?:\w+ ){{1,3}}?(?:lauft|laufen|liegt|liegen|heisst|heißt) ",
    rf"{_CLAUSE}ich arbeite (?:\w+ ){{0,3}}?(?:bei|als|in|im|fur|von)\b|{_CLAUSE}ich bin (?:\w+ "
    rf")?\w{{3,}}(?:er|erin|ist|istin|eur|arzt|arztin|krankenschwester)(?=[,.!]|$| (?:bei|in|und|von)\b)",
    rf"{_CLAUSE}(?:trabajo|estudio) (?:de|en|como|para|desde|por)\b|{_CLAUSE}soy \w{{3,}}(?:or|ora|ista"
    rf"|er[oa]|ic[oa]|ad[oa]|ante|ente)(?=[,.!]|$| (?:en|de|y)\b)",
    rf"{_CLAUSE}je (?:travaille|bosse) (?:chez|comme|a|au|dans|pour|en|de)\b|{_CLAUSE}je suis (?:une? "
    rf")?\w{{2,}}(?:iste|eur|euse|ien|ienne|er|ere|ant|ante|ier|iere)(?=[,.!]|$| (?:a|chez|et|dans)\b)",
    rf"{_CLAUSE}(?:wir|bei uns) (?:nutzen|verwenden|benutzen|deployen)\b|{_CLAUSE}(?:usamos|aqui usamos)\b"
    rf"|{_CLAUSE}(?:on utilise|nous utilisons)\b",
    # money, keys and numbers of one's own
    rf"(?:{_CLAUSE}|: )(?:my |our |the |meine? |die |das |mi |el |mon |le )?(?:rent|salary|budget|mortgage"
    rf"|miete|gehalt|alquiler|sueldo|loyer|salaire)\b"
    r"(?: \w+){0,2} (?:is|are|ist|betragt|es|est)(?: de)? \S*\d",
    rf"{_CLAUSE}{_MINE} .*\b(?:signs off|approves|reports to)\b",
)
_PLACE = _compile(
    rf"{_CLAUSE}(?:(?:i'?m|i am) (?:\w+ )?(?:learning|studying)|ich lerne|estoy aprendiendo|j'apprends) "
    rf"(?:le |l')?(?P<learned>\w+)",
    rf"{_CLAUSE}(?:i|we|{_MINE})(?:'ve| have| now| both| currently)* (?:lives?|moved|am living|are living"
    rf"|am based|are based) (?:now )?(?:from (?:[\w-]+ ){{1,3}})?(?:in|to|near|outside|at) "
    rf"(?:the |an? \w+ in |an? \w+ \w+ in )?(?P<place>\w+)",
    rf"{_CLAUSE}(?:i'?m|we'?re) (?:based|living) in (?P<based>\w+)",
    rf"{_CLAUSE}(?:(?:ich )?wohne?|wir wohnen|ich lebe?|wir leben|{_MINE} wohnt|{_MINE} lebt) (?:\w+ "
    rf"){{0,2}}?in (?:der )?(?P<ort>\w+)",
    rf"{_CLAUSE}(?:ich ziehe|wir ziehen|wir sind|ich bin) (?:[\w.]+ ){{0,4}}?nach (?P<nach>\w+)",
    rf"{_CLAUSE}(?:vivo|vivimos|{_MINE} vive|(?:nos|me) (?:hemos |he )?mud(?:amos|ado|e)) (?:de \w+ |\w+ )?(?:en|a) "
    rf"(?P<lugar>\w+)",
    rf"{_CLAUSE}(?:j'habite|nous habitons|on habite|je vis|{_MINE} habite|(?:j'ai|on a|nous avons) "
    rf"demenage) (?:de \w+ |\w+ )?(?:a|au|en|dans) (?P<lieu>\w+)",
)
_EVENT = _compile(
    r"\b(?:appointment|deadline|due|flight|booked|handed in|hand in|exam|interview|wedding|surgery|meeting"
    r"|therapist|dentist|doctor|train leaves|trip|party|concert|"
    r"termin|abgabe|frist|flug|prufung|hochzeit|operation|klausur|cita|vuelo|entrega|reunion|boda|examen"
    r"|plazo|"
    r"rdv|rendez-vous|vol|examen|mariage|rendu|echeance|"
    r"ends|expires|starts|begins|closes|endet|beginnt|lauft ab|vence|termina|empieza|expire|commence|se "
    r"termine)\b",
    rf"{_CLAUSE}(?:i|we) (?:have|got|am|are|leave|fly|arrive|take|play|train|meet|go)\b|{_CLAUSE}(?:i'm"
    rf"|we're|i've|we've)\b|{_CLAUSE}(?:my|our) \w+",
    rf"{_CLAUSE}(?:ich hab\w?|wir haben|tengo|tenemos|j'ai|on a|nous avons|{_MINE} (?:ist|hat|es|tiene|est"
    rf"|a))\b",
)
_MONTH = (
    rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov"
    r"|dec)\b"
)
_DAY = Lazy(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}|\b{_MONTH}\.? \d{{1,2}}|\b(?:in|by|until|im|ab"
    rf"|bis|en|fin) {_MONTH}"
    rf"|\b(?:{'|'.join(WEEKDAYS)})s?\b(?!')"
    r"|\b\d{1,2}:\d\d\b|\b\d{1,2}\.\d{1,2}\.|\b\d{1,2}/\d{1,2}\b|\b\d{1,2}h(?:\d\d)?\b|\b\d{1,2}\s?(?:am"
    r"|pm|uhr)\b|\b\d{1,2}(?:st|nd|rd|th)\b|\ble \d{1,2}\b"
)
_TROUBLE = Lazy(
    r"\b(?:fail(?:s|ed|ing)?|broken|broke|crash\w*|errors?|bugs?|stuck|not working|doesn't "
    r"work)\b|%"
)
_PASSING = Lazy(
    r"\b(?:was|were|had|war|waren|hatte\w*|era|fue|tuve|etait|avait|today|tonight|yesterday|heute|gestern"
    r"|hoy|ayer|aujourd'hui|hier)\b"
)
_TAG = Lazy(r",? (?:ok|okay|right|yes|ja|oder|gell|vale|no|d'accord|hein) ?\?+$")
_COMMON = parse_word_set(
    """
    not so the a an on in at going done trying looking using sure sorry fine good ok okay back here just also
    very really too now still working getting having thinking wondering writing building being stuck lost
    tired happy glad afraid curious new ready
    """
)


def match_statement(sentence: str) -> Statement | None:
    """Return what a sentence of the user's states of them, or how they want to be answered; None for most.

    >>> match_statement("just call me Bea"), match_statement("my wife's name is Imogen")
    ('preference', 'fact')
    >>> match_statement("my neighbour wants everyone to call her Countess")
    """
    masked = strip_quotations(sentence)
    plain = fold_text(masked)
    if is_doubtful(sentence) or "“”" in plain or len(plain) < _SHORTEST:
        return None
    if (
        (found := _INSTRUCTION.search(plain))
        and (found["spelled"] is None or masked[found.start("spelled")].isupper())
        and (found["called"] or "") not in _COMMON
    ):
        return "preference" if not found.start() or not _REPORTED.search(plain) else None
    marked = _MARKED.search(plain)
    if marked is not None and len(marked["rest"].split()) >= 3:
        return "fact"
    if _TASK.search(plain) or _REPORTED.search(plain):
        return None
    if _PREFERENCE.search(plain):
        return "preference"
    if _DECISION.search(plain):
        return "decision" if is_self_contained(sentence) else None
    if _TROUBLE.search(plain):
        return None
    if _HEALTH.search(plain):
        return "constraint"
    if any(_is_name_like(masked, found, ("self",)) for found in _NAME_OF_SPEAKER.pattern.finditer(plain)):
        return "preference"
    return "fact" if _states_fact(masked, plain) else None


_IMPERATIVE = Lazy(
    r"^(?:please |bitte |also |oh |ok |and |but )*"
    rf"(?:(?:always|never|don't|do not|no more|immer|nie|nunca|siempre|jamais|toujours) |{_ANSWERING} )"
)
_ABOUT_ANSWERS = Lazy(
    r"\b(?:to be (?:called|addressed)|genannt werden|answers?|repl(?:y|ies)|responses?|antwort\w*|respuestas?"
    r"|reponses?)\b"
)
_IMPORTANT, _ORDINARY = 0.7, 0.5


def rate_importance(statement: str, kind: Kind) -> float:
    """Return the importance of a statement: instructions, names and health come first in prompts.

    Only preferences and constraints are rated, since only they stand in every prompt.

    >>> [rate_importance(each, "preference") for each in ("Call the user Bea.", "Bea likes tea.")]
    [0.7, 0.5]
    """
    if kind not in STANDING:
        return _ORDINARY
    plain = fold_text(statement)
    patterns = (_INSTRUCTION, _IMPERATIVE, _ABOUT_ANSWERS, _HEALTH, _HEALTH_OF_ANYBODY, _NAME_OF_SPEAKER)
    return _IMPORTANT if any(pattern.search(plain) for pattern in patterns) else _ORDINARY


def concerns_health(statement: str) -> bool:
    """Return whether a statement of anybody tells of a diet, an allergy or a medicine.

    >>> [concerns_health(each) for each in ("Ruth is allergic to nuts.", "Bo takes aspirin 100 mg", "Bo runs")]
    [True, True, False]
    """
    return _HEALTH_OF_ANYBODY.search(fold_text(statement)) is not None


def is_doubtful(sentence: str) -> bool:
    """Return whether a sentence of the user's states nothing that holds: a question, a guess, a joke, fiction.

    >>> is_doubtful("could be that I'm lactose intolerant"), is_doubtful("I'm lactose intolerant")
    (True, False)
    """
    masked = strip_quotations(sentence)
    plain = fold_text(masked)
    return (
        plain.endswith("?")
        or len(plain) > _LONGEST
        or _NO_FACT.search(plain) is not None
        or _IRREALIS.search(masked) is not None
        or _has_foreign_head(plain)
    )


_SHORTEST = 8
_LONGEST = 300


def strip_question(sentence: str) -> str:
    """Return a sentence without the question that follows a statement in it.

    >>> strip_question("I'm vegan, what can I cook?"), strip_question("ask first, ok?")
    ("I'm vegan", 'ask first')
    """
    if not sentence.rstrip().endswith("?"):
        return sentence
    if (tag := _TAG.search(sentence.lower())) is not None:
        return sentence[: tag.start()]
    head, comma, _ = sentence.rpartition(", ")
    return head if comma else sentence


def strip_greeting(sentence: str) -> str:
    """Return a sentence without the greeting before it.

    >>> strip_greeting("Hi, call me Bea."), strip_greeting("Hey Claude! We moved"), strip_greeting("Hi-fi is on")
    ('call me Bea.', 'We moved', 'Hi-fi is on')
    """
    return _GREETING.sub("", sentence, count=1)


_GREETING = re.compile(
    r"^(?:hi|hiya|hello|hey|good (?:morning|afternoon|evening)|hallo|moin|servus|guten (?:tag|morgen|abend)|hola"
    r"|buen[oa]s(?: \w+)?|bonjour|bonsoir|salut)(?: \w+)?(?:[,!.]| [–—-])\s+(?=\S)",
    re.IGNORECASE,
)


def _has_foreign_head(plain: str) -> bool:
    head = _HEAD.search(plain)
    return (
        head is not None
        and _ALLOWED_HEAD.search(head["head"]) is None
        and _VALUE_OF_MINE.search(plain) is None
    )


def _states_fact(masked: str, plain: str) -> bool:
    if _FACT.search(plain) or (_EVENT.search(plain) and _DAY.search(plain) and not _PASSING.search(plain)):
        return True
    if (place := _PLACE.search(plain)) is not None and _is_name_like(masked, place, tuple(place.groupdict())):
        return True
    return any(
        _is_name_like(masked, found, ("name", "kin", "vehicle")) for found in _NAMED.pattern.finditer(plain)
    )


def _is_name_like(masked: str, found: re.Match[str], groups: tuple[str, ...]) -> bool:
    """Return whether the word in the group that matched is written as a name, or may be one."""
    for group in groups:
        if group in found.groupdict() and found[group] is not None:
            word = found[group]
            return word not in _COMMON and masked[found.start(group)].isupper()
    return True
