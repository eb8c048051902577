"""Secrets recognized by their own form: keys and tokens of providers, private keys, JWTs.

A rule has lower-case triggers. Its pattern is compiled, and runs, only for a text that has one of them. Every
quantifier is bounded or possessive, so matching takes linear time.
"""

from __future__ import annotations

from reverie.domain.secrets import checksums
from reverie.domain.secrets.rule import SecretMatch, SecretRule, is_not_placeholder

_B = r"(?<![A-Za-z0-9])"  # where a token may begin
_E = r"(?![A-Za-z0-9])"  # and end


def _build_token_rule(kind: str, triggers: str, pattern: str, *, case: bool = True) -> SecretRule:
    return SecretRule(
        kind, tuple(triggers.split()), f"{_B}(?:{pattern}){_E}", check=is_not_placeholder, case=case
    )


def _is_github_token(secret: SecretMatch) -> bool:
    text = secret.text
    payload = text.rpartition("_")[2]
    return checksums.has_crc(payload) or not checksums.is_placeholder(payload)


def _is_sk_key(secret: SecretMatch) -> bool:
    """Return whether it is a key: `sk-` also begins names of CSS classes."""
    rest = secret.text[3:]
    return checksums.is_random(rest) and not checksums.is_placeholder(rest)


def _is_random_token(secret: SecretMatch) -> bool:
    return checksums.is_random(secret.text) and not checksums.is_placeholder(secret.text)


def _is_jwt_token(secret: SecretMatch) -> bool:
    return checksums.is_jwt(secret.text)


def _is_key_block(secret: SecretMatch) -> bool:
    """Return whether a block between BEGIN and END lines has a body, and not three dots."""
    body = "".join(char for char in secret.text.split("-----", 2)[-1] if char.isalnum())
    return len(body) >= 60 and len(set(body)) >= 12


def _is_discord_token(secret: SecretMatch) -> bool:
    head = secret.text.partition(".")[0]
    return checksums.is_random(secret.text.replace(".", "")) and len(set(head)) > 5


_PEM_LINE = r"(?:[ \t\r\n>|#\"'+,;]|\\[rnt\\])"
_PEM = (
    r"-{4,5}BEGIN (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)?-{4,5}"
    rf"(?:{_PEM_LINE}|[A-Za-z0-9+/=:_.,-](?!-{{3}})|-(?=[A-Za-z0-9])){{0,20000}}+"
    r"(?:-{0,6}END (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)?-{4,5})?"
)

KEY_BLOCK = SecretRule("private key", ("private key",), _PEM, check=_is_key_block)
"""A private key between its BEGIN and END lines, the lines of which may be indented or escaped."""

RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "private key",
        ("putty-user-key-file",),
        r"Private-Lines: \d{1,4}\r?\n(?:[A-Za-z0-9+/=]{1,80}\r?\n){1,400}+(?:Private-MAC: [0-9a-f]{40,64})?",
    ),
    _build_token_rule("private key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _build_token_rule("aws access key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _build_token_rule("google api key", "aiza", r"AIza[\w-]{35}(?![\w-])"),
    _build_token_rule("google oauth secret", "gocspx-", r"GOCSPX-[\w-]{28}(?![\w-])"),
    _build_token_rule("google oauth token", "ya29.", r"ya29\.[\w.-]{30,2000}+"),
    _build_token_rule("google oauth token", "1//0", r"1//0[\w-]{30,200}+"),
    SecretRule(
        "azure key",
        ("accountkey", "sharedaccesskey", "accesskey="),
        r"(?:AccountKey|SharedAccessKey|;AccessKey)\s{0,3}=\s{0,3}(?P<value>[A-Za-z0-9+/]{40,100}={0,2})",
        check=is_not_placeholder,
        case=False,
    ),
    SecretRule(
        "azure sas",
        ("sig=",),
        r"[?&;]sig=(?P<value>[A-Za-z0-9%+/_-]{40,100}={0,2})",
        check=is_not_placeholder,
        case=False,
    ),
    SecretRule(
        "azure client secret",
        ("q~",),
        rf"{_B}[\w.~-]{{3}}\dQ~[\w.~-]{{31,34}}(?![\w~-])",
        check=is_not_placeholder,
    ),
    SecretRule(
        "signed url",
        ("x-amz-signature=", "x-goog-signature=", "x-amz-security-token="),
        r"X-(?:Amz|Goog)-(?:Signature|Security-Token)=(?P<value>[\w%+/=-]{40,2500}+)",
        check=is_not_placeholder,
        case=False,
    ),
    _build_token_rule("anthropic key", "sk-ant-", r"sk-ant-[\w-]{20,160}(?![\w-])"),
    _build_token_rule(
        "openai key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-[\w-]{20,220}(?![\w-])"
    ),
    _build_token_rule("openrouter key", "sk-or-", r"sk-or-v1-[0-9a-f]{64}"),
    _build_token_rule("langsmith key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    SecretRule("openai key", ("sk-",), rf"{_B}sk-[A-Za-z0-9]{{20,64}}(?![\w-])", check=_is_sk_key),
    _build_token_rule("groq key", "gsk_", r"gsk_[A-Za-z0-9]{48,60}"),
    _build_token_rule("perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,60}"),
    _build_token_rule("xai key", "xai-", r"xai-[A-Za-z0-9]{70,90}"),
    _build_token_rule("replicate token", "r8_", r"r8_[A-Za-z0-9]{37}"),
    SecretRule(
        "github token",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
        rf"{_B}gh[pousr]_[A-Za-z0-9]{{36,255}}{_E}",
        check=_is_github_token,
    ),
    SecretRule("github token", ("github_pat_",), rf"{_B}github_pat_\w{{60,100}}", check=_is_github_token),
    _build_token_rule(
        "gitlab token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[\w.-]{20,320}(?![\w-])",
    ),
    _build_token_rule(
        "slack token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxo- xoxc- xoxd-",
        r"xox[bpareocsd](?:[.-][\w%-]{8,250}){1,3}",
    ),
    _build_token_rule("slack token", "xapp-", r"xapp-\d-[A-Z0-9]{8,14}-\d{10,15}-[0-9a-f]{50,80}"),
    _build_token_rule(
        "slack webhook",
        "hooks.slack",
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<value>[\w/]{20,120})",
    ),
    _build_token_rule(
        "discord webhook",
        "api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/(?P<value>[\w-]{60,80})",
    ),
    SecretRule(
        "discord token",
        (".",),
        rf"{_B}[MNO][A-Za-z\d_-]{{22,27}}\.[\w-]{{6}}\.[\w-]{{27,40}}(?![\w-])",
        check=_is_discord_token,
        needs=r"\.[\w-]{6}\.[\w-]{27}",
    ),
    _build_token_rule(
        "teams webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/(?P<value>[\w@/-]{60,300})"
    ),
    _build_token_rule(
        "stripe key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}"
    ),
    _build_token_rule("stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/]{24,80}={0,2}"),
    _build_token_rule("twilio key", "sk", r"SK[0-9a-f]{32}"),
    _build_token_rule("sendgrid key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{32,64}(?![\w-])"),
    _build_token_rule("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _build_token_rule("pypi token", "pypi-ageichlwas", r"pypi-AgEIcHlwaS[\w-]{40,400}(?![\w-])"),
    _build_token_rule("pypi token", "pypi-agenda", r"pypi-AgENdGVzdC[\w-]{40,400}(?![\w-])"),
    _build_token_rule("docker token", "dckr_", r"dckr_[po]at_[\w-]{27,60}(?![\w-])"),
    _build_token_rule("reverie token", "rvr_", r"rvr_[0-9a-f]{8}_[\w-]{43}(?![\w-])"),
    _build_token_rule("hugging face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z]{34}"),
    SecretRule(
        "telegram token",
        (":aa",),
        r"(?<!\d)(?<![A-Za-z]\d)\d{8,10}:AA[\w-]{32,34}(?![\w-])",
        check=is_not_placeholder,
    ),
    _build_token_rule("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", r"do[por]_v1_[0-9a-f]{64}"),
    _build_token_rule("databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _build_token_rule("shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _build_token_rule("square token", "sq0", r"sq0(?:atp|csp|idp)-[\w-]{22,43}(?![\w-])"),
    SecretRule("square token", ("eaaa",), rf"{_B}EAAA[lE][\w-]{{55,62}}(?![\w-])", check=_is_random_token),
    SecretRule("mailgun key", ("key-",), rf"{_B}key-[0-9a-f]{{32}}{_E}", check=is_not_placeholder),
    SecretRule(
        "mailgun key",
        ("-",),
        rf"{_B}[0-9a-f]{{32}}-[0-9a-f]{{8}}-[0-9a-f]{{8}}(?![\w-])",
        needs=r"[0-9a-f]-[0-9a-f]{8}-[0-9a-f]{8}(?![\w-])",
    ),
    SecretRule("mailchimp key", ("-us",), rf"{_B}[0-9a-f]{{32}}-us\d{{1,2}}{_E}", check=is_not_placeholder),
    _build_token_rule("linear key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    _build_token_rule("notion token", "secret_", r"secret_[A-Za-z0-9]{43}"),
    _build_token_rule("notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,50}"),
    _build_token_rule("vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,300}(?![\w-])"),
    SecretRule(
        "jwt",
        ("eyj",),
        rf"{_B}eyJ[\w-]{{8,2000}}+\.[\w-]{{2,8000}}+(?:\.[\w-]{{0,4000}}+){{1,3}}",
        check=_is_jwt_token,
    ),
    _build_token_rule("atlassian token", "atatt3 atctt3", r"AT[AC]TT3[\w=-]{100,300}(?![\w-])"),
    _build_token_rule("figma token", "figd_", r"figd_[\w-]{38,50}(?![\w-])"),
    _build_token_rule("new relic key", "nrak- nrii- nrjs-", r"NR(?:AK|II|JS)-[\w-]{20,40}(?![\w-])"),
    _build_token_rule(
        "grafana token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/]{32,400}={0,2})"
    ),
    _build_token_rule("sentry token", "sntrys_ sntryu_", r"(?:sntryu_[0-9a-f]{64}|sntrys_[\w+/=-]{60,400})"),
    _build_token_rule("pulumi token", "pul-", r"pul-[0-9a-f]{40}"),
    _build_token_rule("terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}"),
    _build_token_rule("fly token", "flyv1 fo1_", r"(?:fo1_[\w-]{43}|FlyV1 fm\d[ar]?_[\w+/=,-]{60,2000})"),
    _build_token_rule("heroku key", "hrku-", r"HRKU-[\w-]{36,70}(?![\w-])"),
    _build_token_rule(
        "supabase key", "sbp_ sb_secret_", r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{22,50})(?![\w-])"
    ),
    _build_token_rule("planetscale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,64}(?![\w-])"),
    _build_token_rule(
        "doppler token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"
    ),
    SecretRule(
        "airtable token", ("pat",), rf"{_B}pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_E}", check=is_not_placeholder
    ),
    _build_token_rule("postman key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _build_token_rule("rubygems key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _build_token_rule("dynatrace token", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _build_token_rule("netlify token", "nfp_", r"nfp_[A-Za-z0-9]{36}"),
    _build_token_rule("1password token", "ops_eyj", r"ops_eyJ[\w+/=-]{100,2000}"),
)
"""Rules for secrets with a form of their own, the more specific first."""
