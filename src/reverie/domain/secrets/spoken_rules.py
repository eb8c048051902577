"""Secrets that people tell in a sentence: PINs, alarm codes, social security numbers, seed phrases, recovery codes.

English, German, Spanish and French. Such a value is digits or plain words, so the words around it decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reverie.domain.lazy_regex import LazyRegex
from reverie.domain.secrets import checksums
from reverie.domain.secrets.rule import SecretMatch, SecretRule, Span
from reverie.domain.word_lists import join_words

_IS = r"(?:\b(?:is|are|ist|lautet|es|est|c'est|was|to|auf|a)\b|[:=])"
_LOCKED = join_words(
    r"""
    alarm\w* door front[ ]door gate garage keypad lock[ -]?box safe entry building haust[üu]r t[üu]r\w* tresor puerta
    port[óo]n portal portail immeuble porte coffre caja[ ]fuerte alarme immeuble tor garagentor
    """
)
_CARDS = LazyRegex(
    r"card|karte|tarjeta|carte|debit|credit|bank|atm|phone|handy|m[óo]vil|tel[ée]f|t[ée]l[ée]phone"
    r"|voicemail|sim\b|"
    r"\b(?:my|our|meine?r?|mi|ma|mon|unsere?r?)\b",
    re.IGNORECASE,
)
_OTHER_CODES = LazyRegex(
    r"(?:error|exit|status|zip|area|country|promo|discount|product|postal|source|dress|bar|qr|fehler|post"
    r"|gpio|pixel|"
    r"response|colou?r|order|room|flight|tracking)[ -]?\Z",
    re.IGNORECASE,
)
_TOKEN = r"(?=[^\s,;\"'<>()]*\d)(?=[^\s,;\"'<>()]*[A-Za-z])[^\s,;\"'<>()/]{6,80}"
_FUNCTION = join_words(
    """
    the and for you that this with from was are not but have your they his her can will when then our has had its
    never keep write down them into these those what which while who
    """
)
_PASSWORDS = r"(?:pw|mdp|kennwort|passwort|contrase[ñn]a|mot[ ]de[ ]passe|clave)"


def _is_of_a_card(secret: SecretMatch) -> bool:
    start, end = secret.match.span(secret.group)
    line = secret.match.string[max(0, start - 90) : end + 30].strip()
    return len(set(secret.text)) > 1 and secret.text != "1234" and _CARDS.re.search(line) is not None


def _is_code(secret: SecretMatch) -> bool:
    start, end = secret.match.span(secret.group)
    text = secret.match.string
    announced_at = (
        secret.match.start("said") if "said" in secret.match.re.groupindex else secret.match.start()
    )
    is_time = re.match(r"\s?(?:am|pm|uhr|h\b|:\d|%|°|times|seconds|minutes|days)", text[end:], re.IGNORECASE)
    return (
        is_time is None
        and len(set(secret.text)) > 1
        and _OTHER_CODES.re.search(text[max(0, announced_at - 14) : announced_at]) is None
        and not (len(secret.text) == 4 and secret.text[:2] in ("19", "20") and start - announced_at > 30)
    )


def _is_password(secret: SecretMatch) -> bool:
    value = secret.text
    is_version = re.fullmatch(r"v?\d+(?:\.\d+)+\w*|\d+[a-z]{1,3}|[a-z]{2,5}-?\d{1,3}", value, re.IGNORECASE)
    return (
        is_version is None
        and not checksums.is_placeholder(value)
        and "=" not in value[:-2]
        and "${" not in value
    )


def _is_card_number(secret: SecretMatch) -> bool:
    return checksums.is_card(secret.text)


RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "social security number",
        ("ssn", "social", "soc sec"),
        r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\d-])",
    ),
    SecretRule(
        "social security number",
        ("ssn", "social", "soc sec"),
        r"\b(?:ssn|social[ ]security(?:[ ](?:number|no\.?|num|\#))?|soc\.?[ ]sec\.?(?:[ ](?:number"
        r"|no\.?))?)\b[^\n\d]{0,20}"
        r"(?P<value>\d{9}|\d{3}[ ]\d\d[ ]\d{4})(?![\d-])",
        case=False,
    ),
    SecretRule(
        "pin",
        ("pin", "geheimzahl"),
        rf"(?<![\w-])(?:PIN|geheimzahl)(?:[ -]?(?:code|number|nummer))?(?:[^\n.]{{0,60}}?{_IS}|)[ ]{{0,3}}"
        r"(?P<value>\d{4,8})(?![\d.,-]\d|\d)",
        check=_is_of_a_card,
        case=False,
    ),
    SecretRule(
        "pin",
        ("unlock", "entsperr", "verrouillage", "desbloqueo", "clave", "code de", "código", "codigo"),
        r"\b(?:unlock[ ](?:code|pin)|entsperrcode|code[ ]de[ ]d[ée]verrouillage|c[óo]digo[ ]de[ ]desbloqueo"
        r"|(?:clave|code|c[óo]digo|pin)(?:[ ]secret[oa]?)?[ ](?:de|del)[ ](?:mi|ma|la|tu)[ ](?:tarjeta"
        r"|carte))"
        r"[^\n\d]{0,40}?(?P<value>\d{4,8})(?![\d.,-]\d|\d)",
        check=_is_code,
        case=False,
    ),
    SecretRule(
        "access code",
        (
            "code",
            "combination",
            "combo",
            "código",
            "codigo",
            "alarm",
            "kombination",
            "combinaci",
            "combinaison",
        ),
        rf"(?P<said>\b(?:{_LOCKED})(?:'s)?[ -]?(?:keypad[ ]|system[ ])?(?:code|combination|combo|pin"
        rf"|kombination)\b)[^\n\d]{{0,30}}?"
        r"(?P<value>\d{3,8}|\d{1,2}(?:-\d{1,2}){2,3})(?![\d-]|\.\d)",
        check=_is_code,
        case=False,
    ),
    SecretRule(
        "access code",
        ("code", "código", "codigo", "kombination", "combinaci", "combinaison", "combination"),
        rf"(?P<said>\b(?:code|c[óo]digo|kombination|combinaci[óo]n|combinaison|combination))\b[ ](?:for|of"
        rf"|to|f[üu]rs?|zu[rm]?|vo[nm]|del?|"
        rf"pour)\b[^\n\d:]{{0,25}}?\b(?:{_LOCKED})\b[^\n\d]{{0,25}}?(?P<value>\d{{3,8}}"
        rf"|\d{{1,2}}(?:-\d{{1,2}}){{2,3}})(?![\d-]|\.\d)",
        check=_is_code,
        case=False,
    ),
    SecretRule(
        "access code",
        ("alarm", "digicode", "türcode", "tuercode"),
        r"(?P<said>\b(?:t[üu]e?rcode|digicode|(?:dis)?arm(?:[ ]the)?[ ]alarm|(?:house[ ]|the[ "
        r"])?alarm))\b[^\n\d]{0,24}?"
        r"(?:\b(?:is|type|enter|press|code|ist)[ ]|:[ ]?|code[ ])(?P<value>\d{4,8})(?![\d:.]|[ ]?(?:am|pm"
        r"|uhr)\b)",
        check=_is_code,
        case=False,
    ),
    SecretRule(
        "access code",
        ("türcode", "digicode", "code"),
        r"\b(?:t[üu]e?rcode|digicode|door[ ]code|gate[ ]code)[ ](?P<value>\d{4,8})(?!\d)",
        case=False,
    ),
    SecretRule(
        "seed phrase",
        ("seed", "mnemonic", "phrase", "wallet", "semilla", "wiederherstellung"),
        r"(?:seed|mnemonic|(?:recovery|backup|secret)[ _]phrase|wallet|frase[ ](?:semilla|de[ "
        r"]recuperaci[óo]n)|wiederherstellungs\w+|"
        r"phrase[ ](?:de[ ]r[ée]cup[ée]ration|secr[èe]te))[\s\S]{0,60}?(?<![A-Za-z])"
        rf"(?P<value>(?:(?!(?:{_FUNCTION})\b)[a-z]{{3,8}},?[ "
        rf"\n]{{1,2}}){{11,23}}(?!(?:{_FUNCTION})\b)[a-z]{{3,8}})\b",
        case=False,
    ),
    SecretRule(
        "password",
        ("pw", "mdp", "kennwort", "passwort", "contrase", "mot de passe", "clave"),
        rf"(?<![\w-]){_PASSWORDS}\b[^\n=]{{0,50}}?(?:{_IS}[ ]{{0,2}})(?P<value>{_TOKEN})",
        check=_is_password,
        case=False,
    ),
    SecretRule("password", ("pw ",), rf"(?<![\w-])pw[ ](?P<value>{_TOKEN})", check=_is_password, case=False),
    SecretRule(
        "password",
        ("creds", "credential", "zugangsdaten", "anmeldedaten", "identifiants", "credenciales"),
        r"\b(?:creds|credentials|zugangsdaten|anmeldedaten|identifiants|credenciales)\b[^\n]{0,40}?"
        rf"[\w.@-]{{2,40}}[ ]?[/:][ ]?(?P<value>{_TOKEN})",
        check=_is_password,
        case=False,
    ),
    SecretRule(
        "token",
        ("signing secret ", " token "),
        r"\b(?:signing[ ]secret|(?:circleci|api|access|auth|deploy|bot)[ ]token)[ "
        r"](?P<value>[0-9a-f]{32,64})\b",
        case=False,
    ),
    SecretRule(
        "card number", ("pan=",), r"\bpan=(?P<value>\d{13,19})(?!\d)", check=_is_card_number, case=False
    ),
)
"""Rules for secrets that a sentence tells."""

_RECOVERY = LazyRegex(
    r"(?:recovery|backup|rescue|restore)[ _-](?:code|key)s?|bitlocker[ _-]key|wiederherstellungs(?:code"
    r"|schl[üu]ssel)s?"
    r"|c[óo]digos?[ ]de[ ](?:recuperaci[óo]n|respaldo)|codes?[ ]de[ ](?:r[ée]cup[ée]ration|secours)",
    re.IGNORECASE,
)
_RECOVERY_CODE = LazyRegex(
    r"(?<![\w./-])(?:\d{6}(?:-\d{6}){7}|[A-Z0-9]{4}(?:-[A-Z0-9]{4}){3,7}|(?=[0-9a-z-]*\d)(?=[0-9-]*[a-z]"
    r"|\d{5})[0-9a-z]{4,6}-[0-9a-z]{4,6}"
    r"|\d{8})(?![\w/-]|\.\d)"
)
_WITHIN = 300


def find_recovery_codes(text: str, lower: str) -> Iterator[Span]:
    """Yield the codes that follow the words "recovery codes" and the like."""
    if not any(
        word in lower
        for word in ("recover", "backup", "rescue", "bitlocker", "wiederher", "recupera", "récup", "secours")
    ):
        return
    for announcement in _RECOVERY.re.finditer(text):
        for code in _RECOVERY_CODE.re.finditer(text, announcement.end(), announcement.end() + _WITHIN):
            yield Span(*code.span(), "recovery code")
