"""Words of a text that reports a change, such as "moved", "now", "no longer". Other texts may report one too."""

from __future__ import annotations

import re

from reverie.domain.lazy_regex import defer_regex

_CHANGE = defer_regex(
    r"\b(?:now(?:adays)?|currently|instead|no longer|no more|any ?more|newe?s?t?|from now on|these days|as of|again"
    r"|changed|moved|switched|swapped|replace[sd]|renamed|promoted|relocated|transferred|migrated|upgraded|updated"
    r"|raised|increased|lowered|reduced|doubled|halved|(?:went|gone|go) (?:up|down|back)|taken? over|took over"
    r"|postponed|rescheduled|delayed|pushed|brought forward|cancel?led|stopped|quit|finished|completed|sold|ended"
    r"|(?:is|are) (?:out|gone|over)|died|left|joined|closed|retired|gave up|given up|broke up|divorced|graduated"
    r"|since (?:last )?(?!then)\w+"
    r"|jetzt|nun|inzwischen|mittlerweile|ab sofort|neue[nrsm]?|nicht mehr|keine?n? \w+ mehr|statt|seit"
    r"|ge(?:ändert|wechselt|stiegen|sunken|kündigt|trennt|zogen)|umge(?:zogen|stellt|stiegen)|wechselte|verschoben"
    r"|verlegt|erhöht|gesenkt|befördert|ersetzt|umbenannt|verkauft|beendet|abge(?:schlossen|sagt|geben)|aufge\w+"
    r"|ahora|actualmente|nuev[oa]s?|ya no|cambi(?:[oó]|ad[oa]|amos|aron)|mud[oóé]\w*|mudad[oa]|subi[oó]|baj[oó]"
    r"|aplaz\w+|dej[oóé]|vendi[oó]|termin[oóé]|en (?:vez|lugar) de|desde"
    r"|maintenant|désormais|nouve(?:au|l|lle)s?|ne \w+ plus|n'\w+ plus|changée?|déménagée?|passée?|augmentée?"
    r"|baissée?|reportée?|arrêtée?|vendue?|quittée?|au lieu d|depuis"
    r"|adesso|ora|nuov[oaie]|non \w+ più|cambiat[oa]|trasferit[oa]|agora|nov[oa]s?|mudou|mudei|já não|passou)\b"
    r"|今は|現在|に変わ|に変更|になった|になりました|引っ越|移っ|やめ|辞め|もう|ではなく|新しい"
    r"|现在|改[为成到用]|换成|换了|搬到|搬家|不再|推迟|提前|辞职|新的?",
    re.IGNORECASE,
)


def tells_of_change(text: str) -> bool:
    """Return whether a text has a word of change.

    >>> tells_of_change("Ada lives in Oslo now"), tells_of_change("Ada likes Oslo")
    (True, False)
    """
    return _CHANGE.search(text) is not None
