"""Words of change and of doubt in English, German, Spanish and French, as `fold_text` writes them.

In the lists `_` is a space. All are words of grammar and of change; none names a subject.
"""

from __future__ import annotations

import re

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.calendar_words import MONTHS, UNIT_OF, WEEKDAYS
from reverie.domain.word_lists import parse_word_set


def _compile(words: str, more: str = "") -> re.Pattern[str]:
    """Return the pattern of a list of words. They are grouped by first letter, which is twice as fast."""
    grouped: dict[str, list[str]] = {}
    for word in words.split():
        first = word[0] if word[0].isalpha() and word[1] not in "?*" else ""
        grouped.setdefault(first, []).append(word[len(first) :].replace("_", " "))
    expressions = [f"{first}(?:{'|'.join(rest)})" for first, rest in grouped.items()] + [more] * bool(more)
    return defer_regex(rf"\b(?:{'|'.join(expressions)})\b")


_SINCE_DAY = (
    r"(?:since|seit|desde|depuis|(?:as of|from|ab|a partir (?:de|du))(?! \S+ (?:to|bis|a|au)\b)) "
    r"(?:last |next |letzte[nmr]? |nachste[nmr]? |el |le )?"
    rf"(?:{'|'.join((*MONTHS, *WEEKDAYS))})"
)

START = defer_regex(rf"\b{_SINCE_DAY}\b(?: \d{{1,2}}\b)?")
"""Since when or from when a statement holds."""

CHANGED = _compile(
    """
    (?:pushed|moved|put)_(?:back|forward|out)
    changed moved switched reset renewed grew migrated relocated transferred shifted raised upped hiked increased halved
    doubled turned prolonged slipped lowered reduced cut rose fell bumped upgraded downgraded updated extended postponed
    pushed rescheduled delayed renamed rebranded promoted (?:went|gone|go)_(?:up|down|back) brought_forward
    (?:took|taken|handed)_over
    geandert gewechselt wechselte umgestellt erhoht gesenkt gestiegen gefallen verschoben verlegt vorgezogen
    umbenannt befordert angehoben reduziert verlangert umgezogen gezogen umgestiegen ubernommen ubernimmt
    cambi[a-z]+ mud(?:o|ado|ada|amos|e)
    subi(?:o|do|eron) baj(?:o|ado|aron) aument(?:o|ad[oa]|aron) redu(?:jo|jeron|cid[oa])
    aplaz(?:o|ado|ada) retras(?:o|ado|ada) pospuest[oa] adelantad[oa]
    traslad(?:o|ad[oa]) migr(?:o|ado|amos) renombrad[oa] pas(?:o|ado|amos)
    change[es]? demenage[es]? passee?s? augmentee?s? baissee?s? reportee?s? decalee?s? avancee?s? renommee?s?
    rebaptisee?s?
    """,
)
NOW = _compile(
    """
    now nowadays currently instead new newest these_days from_now_on no_longer any_?more as_of
    jetzt nun inzwischen mittlerweile neue?[nrs]? ab_sofort ahora actualmente nuev[oa]s?
    maintenant desormais nouvelle nouveau nouvel
    """,
    rf"from (?:\w+ ){{1,2}}on(?:wards?)?|{_SINCE_DAY}"
    r"|(?:since|seit|depuis|desde (?:el|la|hace|ayer))(?: (?!(?:is|are|has|have|was|ist|hat|est|es)\b)[\w']+){1,3}\W*$",
)
REPLACED = _compile(
    """
    replaced replaces ditched swapped traded exchanged abandoned succeeded_by to_replace went_from
    ersetzt abgelost (?:ge|ein)tauscht
    reemplaz[a-z]+ sustitu[a-z]+ remplace[a-z]* troqu[a-z]+
    """
)
ENDED = _compile(
    """
    stopped quit finished completed sold cancell?ed ended died uninstalled removed dropped divorced graduated
    deleted closed disabled retired expired resigned separated lost passed gave_up given_up called_off
    broke_up split_up dropped_out no_longer any_?more no_more stepped_down handed_in wrapped_up turned_off shut_down
    moved_(?:out|away) after_all doch_(?:nicht|keine?n?) back_from home_from
    done_with off_the came_off weaned_off (?:is|are)_(?:out|gone|over|complete|done|finished|off)
    aufgehort aufgegeben abgegeben abgemeldet ausgezogen geschieden gestorben geschlossen geloscht deaktiviert
    abgeschaltet bestanden verkauft gekundigt beendet getrennt abgeschlossen abgesetzt eingestellt abgeschafft
    nicht_mehr ist_(?:weg|vorbei|fertig)
    termin(?:o|ado|amos) dej(?:o|e|ado|amos) vendi(?:o|do|mos) murio cerr(?:o|ado) separado divorciado elimin(?:o|ado)
    desactiv(?:o|ado) cancel(?:o|ado|ada) acab(?:o|ado) rompi(?:o|eron) ya_no ausgetreten dio_de_baja dado_de_baja
    arrete[es]? vendue?s? fini[es]? termine[es]? quittee?s? resilie[es]? rompu separe[es]? mort ferme[es]? divorcee?s?
    annule[es]? supprime[es]? desactive[es]? n'[a-z]+_plus ne_[a-z]+_plus
    """,
    r"keine?n?(?= (?:\w+ )?mehr)|(?<!\d )left(?! (?:over|to do|to go)\b)"
    r"|broke(?=[,.]|$)|g(?:ave|iven) (?=(?:\w+ ){1,3}away\b)|away(?=\W*$)",
)
FINAL = _compile(
    "quit finished completed sold died divorced graduated passed handed_in verkauft gestorben vendi[a-z]+"
)
"""Words for a final end."""

REPAIRED = _compile(
    """
    resolved repaired fixed mended (?:works?|runs?|running|working|green|up|online)_again repariert gerichtet behoben
    (?:geht|lauft|funktioniert)_wieder reparad[oa] arreglad[oa] repare(?:e|s|es)? (?:re)?fonctionne_(?:a|de)_nouveau
    refonctionne remarche (?:funciona|va)_(?:de_nuevo|otra_vez)
    """
)
"""Words for the end of a fault."""

BROKEN = _compile(
    """
    broken (?:is|are|still)_open$ red out_of_order down defective faulty leaks leaking stuck failing fails offline
    crashes crashing broke
    kaputt defekt undicht gestort rot[oa] averiad[oa] estropead[oa] en_el_taller en_panne casse[es]? hors_service
    """
)
"""Words for a fault."""

_OPPOSITES = (("on", "off"), ("open", "closed"), ("enabled", "disabled"), ("active", "inactive"), ("online", "offline"),
    ("an", "aus"), ("offen", "geschlossen"), ("aktiv", "inaktiv"), ("abierto", "cerrado"), ("abierta", "cerrada"),
    ("activo", "inactivo"), ("activado", "desactivado"), ("ouvert", "ferme"), ("ouverte", "fermee"),
    ("active", "desactive"),
)  # fmt: skip
OPPOSITE = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
"""States that exclude each other, each with its opposite."""
STATE = defer_regex(
    rf"(?P<subject>.+?)\s+(?:is|are|ist|sind|esta|estan|est|sont)\s+(?:now\s+|jetzt\s+|ahora\s+|maintenant\s+)?"
    rf"(?P<state>{'|'.join(sorted(OPPOSITE))})\b(?P<rest>.*)"
)
STARTS = parse_word_set(
    """
    start starts begin begins open opens leave leaves offnet beginnt startet abre abren empieza comienza ouvre ouvrent
    commence
    """
)
STOPS = parse_word_set(
    "end ends close closes finish finishes schliesst schließt endet cierra cierran acaba termina ferme ferment finit"
)

UNSURE = defer_regex(
    r"\?|"
    + _compile(
        """
        if unless whether maybe perhaps might could would probably possibly almost nearly considering rumou?r said says
        heard thinking_(?:of|about) wenn falls vielleicht konnte mochte eventuell angeblich
        si quizas? tal_vez podria quiere querria peut-etre pourrait voudrait
        """
    ).pattern
)
"""Words of a statement that is uncertain."""

BESIDE = _compile(
    """
    also too sometimes occasionally tonight temporarily except wants? hopes? hoping wish planning another
    additionally both
    will as_well a_second (?<!the_)(?<!my_)(?<!our_)plans?_to (?<!not_)going_to for_now back_home not_yet
    auch zusatzlich manchmal vorubergehend vorerst tambien ademas temporalmente a_veces veut aussi egalement
    temporairement jusqu'[a-z]+
    """,
    r"(?<!of )today|(?<!ab )heute|(?<!desde )hoy|(?<!partir d')aujourd'hui|(?:until|till|bis|hasta)(?! (?:the "
    r"|zum |el )?\d)"
    rf"|(?<!to )(?:this|next|diese[nrsm]?|nachste[nrs]?|este|proximo|ce|prochain) (?:{'|'.join(WEEKDAYS)})"
    r"|last \w+ (?:was|were)"
    r"|for (?:the |a |two |three |\d+ )?(?:day|night|week|weekend|month|summer|winter|while)s?\b"
    r"|(?:this|diese[nrsm]?|esta|este|cette|ce) (?:\w+ )?"
    r"(?:week|month|weekend|summer|letter|time|woche|mal|semana|vez|semaine|fois)",
)
"""Words of a statement that is additional, temporary or not true yet."""

PAST = _compile(
    "before formerly previously lived worked used_to fruher ehemals antes autrefois avant a_habite ha_vivido"
)
"""Words of a statement about the past, unless it also says what holds now."""

EVENT = defer_regex(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!ist )(?<!sind )"
    + _compile(
        """
    was were used_to sent bought broke met saw went came ate drank ran slept gave wrote told won
    war waren wurden? kaufte brach traf sah ging kam era eran fue fueron compre compro rompio etait etaient
        """
    ).pattern
)
"""Words of an older statement about a past event, which no change ends."""
NOT_HELD = _compile(
    """
    not no never hates? dislikes? avoids? wants? wishes hopes? needs? needed nicht keine?n? nie hasst will mochte
    vermeidet nunca odia evita quiere pas jamais deteste evite veut
    """,
    r"\w+n't",
)
"""Words of a statement that somebody lacks a thing. The end of the thing does not end the statement."""
FORMER = defer_regex(
    r"(?<![\w.@-])(?:old|former|previous|alte[nrsm]?|fruhere[nrsm]?|viej[oa]|antigu[oa]|anterior|ancien(?:ne)?|vieux"
    r"|vieille)(?![\w.@-])"
)
NEWER = defer_regex(r"(?<![\w.@-])(?:new|neue[nrsm]?|nuev[oa]|nouvelle|nouveau|nouvel)(?![\w.@-])")
PURPOSE = defer_regex(r"\s+(?:for|as|zum|zur|fur|als|para|como|pour|comme)\s")
"""Words between a chosen thing and its purpose."""

PARTICIPLE = defer_regex(
    r"(?<=\bwe )[a-z]+ed\b|(?<=\bi )[a-z]+ed\b|(?<=they )[a-z]+ed\b|(?<=has )[a-z]+n\b|(?<=have )[a-z]+n\b"
    r"|\b[a-z]+ed(?=\s+(?:up |down |back )?to\b)|(?<=was )[a-z]+(?:ed|n)\b|(?<=were )[a-z]+(?:ed|n)\b"
    r"|\b(?:\w{2,5})?ge[a-z]+(?:t|en)(?=\W*$)|\b[a-z]+iert(?=\W*$)|(?<=ha )[a-z]+[ai]do\b|(?<=han )[a-z]+[ai]do\b"
)
"""Verbs of change by their form, such as "slipped to"."""

ACCENTED_PARTICIPLE = defer_regex(r"(?<!\bl[ea] )(?<!\bun )(?<!\b[da]u )\b[a-zà-ü]+é(?:e|s|es)?\b")
REASON = defer_regex(
    rf"\b{_SINCE_DAY}\b"
    r"|\b(?:because|since|as of|due to|after|weil|wegen|seit|nachdem|porque|desde|parce que|depuis)\b.*"
)
SINCE = defer_regex(r"\b(?:since|as of|from|seit|ab|desde|a partir de|depuis|a partir du)\s+\S+")
AGAIN = _compile(
    """
    again now finally has_been have_been wieder jetzt endlich de_nuevo otra_vez ahora por_fin a_nouveau maintenant enfin
    """
)
YET = _compile("yet still noch todavia aun encore")
"""Words of an expected change."""

UN = defer_regex(r"\b(?:is|are|ist|sind) un(?=[a-z]{4})")
"""Beginning of the opposite of a state, such as "unpaid"."""

NEGATED = defer_regex(r"\b(?:not|no|never|\w+n't|nicht|kein\w*|nie|nunca|ne|pas|jamais)\b")
_RENEWED = r"\b(?:got a new|changed|have a new|has a new)\s+(?!to\b)(?P<thing>\w+)"
RENEWED = defer_regex(rf"{_RENEWED}\s*$")
RENEWED_INSIDE = defer_regex(_RENEWED)

_SINCE = r"(?:since|seit|desde|depuis)\s+\w+\s+"
HOME = defer_regex(
    r"\b(?:live|lives|living|resides?|based|wohn(?:e|t|en)|leb(?:e|t|en)|viv(?:o|e|imos|en)|habite|habitons|vis|vit)"
    rf"\s+(?:{_SINCE}|\w+\s+)?(?:in|at|en|a|au)\s+(?P<at>.+)"
)
MOVED = defer_regex(
    r"\b(?:moved|relocated|mudado|mudo|mudamos|mude|traslado|trasladado|demenagee?s?)\s+(?:(?:from|de)\s+(?P<from>[\w-]+)\s+"
    r")?(?:to|into|a|en)\s+(?P<at>.+)"
    r"|\b(?:settled|installee?|back)\s+(?:in|a|en)\s+(?P<set>.+)"
    r"|\b(?:i'm|we're|is|are|am)\s+in\s+(?P<be>.+?)\s+since\b"
    r"|\bnach\s+(?P<de>.+?)\s+(?:um)?gezogen\b|\bin\s+(?:die|den|das)\s+(?P<str>.+?)\s+(?:um)?gezogen\b"
    r"|\b(?:own|new) (?:place|flat|home) in\s+(?P<own>.+)"
)
EMPLOYED = defer_regex(
    rf"\b(?:(?:works?|working|employed)\s+(?:now\s+)?(?:at|for|by)|arbeite[tn]?\s+(?:jetzt\s+|{_SINCE})?bei"
    rf"|trabaj[ao]\s+(?:ahora\s+|{_SINCE})?(?:en|para)|travaille\s+(?:maintenant\s+|{_SINCE})?(?:chez|pour)"
    r"|joined|started at|working at"
    r"|(?:(?:started|got|took|accepted|found|have|has)\s+(?:a|my|the)|my)\s+(?:new\s+)?job (?:at|with|in)"
    r"|\b(?:habe?|hat)\s+(?:eine?n?|den|die)\s+(?:neue[nr]?\s+)?(?:job|stelle) bei"
    r"|\b(?:empece|empezo|consegui|encontre|tengo|tiene)\s+un\s+(?:nuevo\s+)?(?:trabajo|empleo)\s+(?:nuevo\s+)?en"
    r"|\b(?:commence|trouve)\s+un\s+(?:nouve(?:au|l)\s+)?(?:travail|boulot|emploi|poste) chez"
    r")\s+(?:the\s+)?(?P<at>.+)"
)
LOCATED = defer_regex(
    r"\b(?:is|are|ist|sind|esta|est)\s+(?:(?:now|jetzt|ahora|maintenant)\s+)?"
    r"(?P<by>on|in|at|im|am|en|a|au|dans)\s+(?P<at>.+)"
)
POSSESSIVE = defer_regex(r"(?:'s|\b(?:my|his|her|their|our|your))\s+$")
"""Words before an English "son", which is a pronoun in French and a verb in Spanish."""

LINK = defer_regex(
    r"(?:\b(?:is|are|ist|sind|es|est|costs?|kostet|cuesta|coute|weighs|takes?|nimmt|toma|prend)|:)\s+"
    r"(?:[a-z]+\s+){0,2}$"
)
"""Words before the value of something that has one value at a time."""

BEFORE_OLD_VALUE = defer_regex(
    r"\b(?:from|was|be|not|instead of|rather than|von|war|nicht|statt|de|era|no|en (?:vez|lugar) de|au lieu d[eu])\s+"
    r"(?:the\s+|[$€£¥])?$"
)
"""Words before a value that no longer holds."""

PASSIVE = defer_regex(
    r"\b(?:was|were|is|are|been|be|got|gets|wurden?|worden|sind|ist|fue|fueron|ha sido|a ete|ont ete)\s+$"
)
"""Words before a change that the subject undergoes."""

TO = defer_regex(r"\b(?:to|auf|al?|au)\s+(?:the\s+|den\s+|about\s+)?$")
"""Words before the value after a change."""

IS_BETWEEN = defer_regex(r"(?:\b(?:is|are|ist|sind|es|son|est|sont)|:)\s")
IS = defer_regex(r"\b(?:is|are|ist|sind|es|est)\s+(?:(?:now|jetzt|ahora|maintenant|the|our|my)\s+){0,2}$")
PREPOSITION = defer_regex(
    r"\b(?P<at>with|to|for|from|at|in|on|by|mit|zu|fur|von|bei|con|para|en|avec|pour|chez|a|dans)\s+(?:the\s+)?$"
)
PERIOD = defer_regex(
    rf"\b(?:(?:for|of|from|fur|vom|von|pour|para|de|del|du)\s+(?=(?:{'|'.join(MONTHS)}|\d{{4}})\b)"
    rf"|for\s+(?=(?:{'|'.join(WEEKDAYS)})\b))(\w+)"
)
"""A month, year or day for which something holds."""
COLLECTIVE = defer_regex(r"\W*(?:we|we've|our|wir|unsere?|on|nous|notre|hemos|nuestr[oa])\b")
"""First words of a statement of a group about itself."""
DESCRIBED = defer_regex(
    r"(?:\s+#?\d+)?\s+(?:is|are|ist|sind|es|son|est|sont|vient|viene|kommt)\s+(?:from|about|by|made|called|named|von|aus|uber|de|du|d'|sur|sobre)\b"
)
"""Words before the material or subject of something, which its end or repair does not change."""

HAS_ROLE = defer_regex(
    r"\b(?:(?:is|are)\s+(?:now\s+)?(?:the|our|my)|took over|taken over|is now|leads|manages|owns|maintains|heads|chairs"
    r"|belongs to|gehort|pertenece a|appartient a"
    r"|ist\s+(?:jetzt\s+)?(?:der|die|das|unsere?|meine?)|leitet|dirige"
    r"|es\s+(?:ahora\s+)?(?:el|la|mi|nuestr[oa])|est\s+(?:maintenant\s+)?(?:le|la|notre|mon|ma))\b"
)
"""Words for a role that one person has at a time."""

LEADING = parse_word_set(
    "leads manages owns belongs maintains heads chairs leitet gehort dirige pertenece appartient"
)
CHOICE = parse_word_set(
    """
    allergic allergisch alergico alergica allergique
    prefer prefers like likes love loves use uses want wants drink drinks speak speaks play plays read reads mag nutzt
    nutzen benutzt spricht usa usamos prefiere utilise prefere parle has have owns
    """
)
"""Verbs that may have many objects at a time."""

ARTICLES = parse_word_set("the der die das den dem le la les l' el los las")
DETERMINERS = ARTICLES | parse_word_set(
    "my our his her their your a an mein meine unser unsere mon ma mes notre mi mis nuestro"
)

FUNCTION_WORDS = parse_word_set(
    """
    a an the this that these those it it's its his her hers their theirs i i'm i've im me my mine we our ours
    us you your he
    she they them user is are am was were be been being has have had do does did at in on of for to from into with by as
    and or but not no so up down out off over here there then than just already again finally recently ago good
    only we're you're they're he's she's don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't
    can can't cannot until till bis hasta last next since about per each every got gets get goes go going what who
    which where when all own everything
    der die das den dem des ein eine einen einem einer mein meine meinen meiner unser unsere ihr ihre sein seine ich wir
    er sie es du ist sind war waren wird werden wurde wurden hat habe haben am im in an auf aus von vom zu zum zur nach
    bei beim mit fur und oder nicht mehr bin bist ins ans wieder schon um ab seit sich pro je dass durch als alles
    el la los las un una unos unas mi mis su sus nuestro nuestra yo nos se le les lo es son esta estan era fue ha han he
    hemos en de del al a por para con y o no ya que como cada todo
    le la les l un une des du de d mon ma mes son sa ses notre nos je j on il elle ils elles est sont etait a
    ont ai avons nous sommes suis
    avec pour par et ou ne pas plus en au aux dans chez sur que qui s se c ce ca y ete etre tout
    """
)
LEADING_WORDS = parse_word_set(
    """
    cost costs pay pays charge charges price prices take takes listen listens run runs start starts end ends open
    opens close closes date fee amount dose dosage length
    leave leaves keep keeps kept set scheduled due held called named version role url address number value appointment
    kostet kosten zahle zahlen betragt preis nimmt nehme heisst heißt liegt leitet lautet termin rolle
    cuesta cuestan pago pagamos precio toma tomo llama numero cita coute prix prend prends paye payons appelle
    s'appelle vaut rdv
    """
)
"""Words that only introduce a value."""

SPANS = frozenset(UNIT_OF) | parse_word_set(
    "monthly yearly daily spring summer autumn winter night morning evening"
)
"""Words for times that distinguish two things: a day pass and a week pass."""
TIME_WORDS = (frozenset(MONTHS) - {"marco"}) | SPANS | parse_word_set("yesterday uhr")

FREQUENCIES = parse_word_set(
    """
    hourly daily weekly biweekly monthly quarterly yearly taglich wochentlich monatlich jahrlich diario semanal mensual
    anual hebdomadaire mensuel annuel quotidien
    """
)
PERIODIC = defer_regex(
    rf"\b(?:every|each)\s+(?:\w+\s+)?(?:{'|'.join(UNIT_OF)})\b"
    rf"|\b(?:once|twice|(?:t[a-z]+|f[a-z]+|s[a-z]+|eight|nine|\d+) times)\s+(?:a|per|every)\s+(?:{'|'.join(UNIT_OF)})\b"
    rf"|\b(?:jede[nrs]?|alle)\s+(?:\w+\s+)?(?:{'|'.join(UNIT_OF)})\b"
    rf"|\b(?:einmal|zweimal|dreimal)\s+(?:pro|am|im|in der)\s+(?:{'|'.join(UNIT_OF)})\b"
    rf"|\b(?:cada|tou(?:te)?s les|chaque)\s+(?:{'|'.join(UNIT_OF)})\b"
)
"""Frequencies."""
FROM_TO = defer_regex(
    r"(?P<topic>.*?)\b(?:from|von|de)\s+(?P<old>.+?)\s+(?:to|auf|zu[rm]?|nach|a|vers)\s+(?P<new>.+)"
)
TO_FROM = defer_regex(
    r"(?P<topic>.*?)\b(?:switched|migrated|moved|changed)\s+to\s+(?P<new>.+?)\s+from\s+(?P<old>.+)"
)
SWITCHED = defer_regex(
    r"\b(?:switched|migrated|changed|gewechselt|umgestiegen|umgestellt|cambi\w+|migr\w+|passes?|change)\b"
)
"""Verbs of replacing one choice by another."""

OLD_AND_NEW = tuple(
    defer_regex(pattern)
    for pattern in (
        r"(?P<old>.+?)\s+(?:was|is|has been|got|wurde|fue|ha sido|a ete)\s+"
        r"(?:replaced|succeeded|swapped(?: out)?|exchanged|remplacee?"
        r"|reemplazad[oa]|sustituid[oa])\s+(?:by|with|for|por|par)\s+"
        r"(?P<new>.+?)(?P<topic>(?:\s+(?:as|als|como|comme)\s+.+)?)",
        r"(?P<old>.+?)\s+(?:wurde|ist)\s+durch\s+(?P<new>.+?)\s+(?:ersetzt|abgelost)",
        r"(?:wir|ich|sie|er)?\s*(?:haben?|hat)\s+(?P<old>.+?)\s+durch\s+(?P<new>.+?)\s+(?:ersetzt|abgelost)",
        r"(?P<old>.+?)\s+gegen\s+(?P<new>.+?)\s+(?:ge|ein)tauscht",
        r"(?:.*\b)?replaced\s+(?P<old>.+?)\s+(?:with|by)\s+(?P<new>.+)",
        r"(?:.*\b)?(?:remplacee?s?|reemplaz\w+|sustitu\w+)\s+(?P<old>.+?)\s+(?:par|por)\s+(?P<new>.+)",
        r"(?P<topic>.*?)\b(?:cambi\w+|chang\w+|troqu\w+)\s+(?P<old>.+?)\s+(?:por|contre)\s+(?P<new>.+)",
        r"(?:.*\b)?(?:ditched|dropped|swapped|traded|exchanged|left|abandoned)\s+(?P<old>.+?)\s+"
        r"(?:for|in favou?r of)\s+"
        r"(?P<new>.+)",
        r"(?P<new>.+?)\s+(?:(?:a|ha|hat)\s+)?(?:to replace|replaced|replaces|remplace|reemplaz(?:o|ado)"
        r"|sustitu(?:yo|ido)|ersetzt)\s+(?!(?:by|with|par|por|durch)\b)"
        r"(?:a\s+)?(?P<old>.+?)(?P<topic>(?:\s+(?:for|as|in|fur|als|para|en|como|a la|au|comme)\s+.+)?)$",
        r"(?P<new>.+?)\s+(?:took|takes|has taken)\s+over\s+(?P<topic>.*?)\s*from\s+"
        r"(?P<old>(?:(?:mrs?|ms|dr)\.? )?[\w.]+)(?:\s+as\s+.*)?",
        r"(?P<old>\S+)\s+(?:passed|handed)\s+(?:over\s+)?(?P<topic>.+?)\s+(?:over\s+)?to\s+(?P<new>\S+)(?:\s+for\s+"
        r".*)?",
        r"(?P<old>\S+)\s+handed\s+over\s+to\s+(?P<new>\S+)\s+as\s+(?P<topic>.+)",
        r"(?:.*\b)?renamed\s+(?P<old>.+?)\s+(?:to|as)\s+(?P<new>.+)",
        r"(?P<old>.+?)\s+(?:(?:was|is|got|has been|wurde|a ete|ha sido|fue)\s+)?"
        r"(?:now called|renamed|rebranded|umbenannt|renombrad[oa]|renommee?|rebaptisee?)\s+(?:(?:to|as|in|a|en)\s+"
        r")?(?P<new>.+)",
        r"(?P<old>.+?)\s+(?:hei(?:ss|ß)t (?:jetzt|nun)|ahora se llama|se llama ahora|s'appelle (?:maintenant"
        r"|desormais))\s+"
        r"(?P<new>.+)",
        r"(?P<old>\S+)\s+(?:is|ist|es|est)\s+(?:now|jetzt|ahora|maintenant|desormais)\s+(?P<new>\S+)$",
        r"(?P<topic>.*?)(?P<new>\S+)[,;]?\s+(?:(?:now|jetzt|ahora|maintenant)\s+)?"
        r"(?:instead of|rather than|(?:and )?no longer|statt|en lugar de|en vez de|au lieu de)\s+(?P<old>.+)",
        r"(?P<topic>.*?)(?P<new>\S+?)(?:\s+(?:now|jetzt|ahora|maintenant))?,\s+(?:and\s+)?"
        r"(?:not|nicht|no(?! longer)|pas)\s+"
        r"(?:(?:on|in|at|with|auf|bei|mit|en|con|chez|avec)\s+)?(?P<old>.+)",
    )
)
"""Statements that name the old value and the new one."""

OLD_OR_NEW = _compile("rather_than statt en_lugar_de en_vez_de au_lieu_de takes_over handed chang[a-z]+")
"""Words of `OLD_AND_NEW`. Each of its matches has one of these, or of `NOW`, `CHANGED`, `REPLACED` or `ENDED`."""
