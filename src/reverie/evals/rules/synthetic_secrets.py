"""How does one make up a secret that looks real, and what only looks like one? From a seed, always the same.

The labelled texts hold names of makers in their places, so that no file of the repository has anything in it
that a scanner, or a provider, could take for a key. Checksums are right where the format has one.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from reverie.domain.secrets.checksums import crc62, luhn

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_B64 = _ALNUM + "+/"
_URL64 = _ALNUM + "-_"
_UPPER = string.ascii_uppercase + "234567"
_WORDS = tuple(
    """
    harbour copper lantern meadow falcon quartz walnut ember glacier saffron thistle marble juniper
    anchor pepper violet canyon otter breeze clover
    """.split()  # noqa: SIM905 - as a list it would take a page
)
Maker = Callable[[Random], str]


def _run(alphabet: str, size: int) -> Maker:
    return lambda rng: "".join(rng.choices(alphabet, k=size))


def _token(prefix: str, alphabet: str, size: int, suffix: str = "") -> Maker:
    made = _run(alphabet, size)
    return lambda rng: f"{prefix}{made(rng)}{suffix}"


def _with_crc(prefix: str) -> Maker:
    def made(rng: Random) -> str:
        payload = "".join(rng.choices(_ALNUM, k=30))
        return f"{prefix}{payload}{crc62(payload)}"

    return made


def _b64(size: int) -> Maker:
    return lambda rng: base64.b64encode(rng.randbytes(size)).decode()


def _url64(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(rng: Random) -> str:
    head = json.dumps({"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = json.dumps({"sub": str(rng.randrange(10**9)), "name": rng.choice(_WORDS), "iat": 1_700_000_000})
    return ".".join((_url64(head), _url64(body), _url64(rng.randbytes(32))))


def _pem(name: str, *, size: int, end: str = "\n", head: str = "") -> Maker:
    def made(rng: Random) -> str:
        body = base64.b64encode(rng.randbytes(size)).decode()
        lines = [body[place : place + 64] for place in range(0, len(body), 64)]
        marks = (f"-----{word} {name}-----" for word in ("BEGIN", "END"))
        begin, last = marks
        return end.join([begin, *([head, ""] if head else []), *lines, last])

    return made


def _card(prefix: str, size: int) -> Callable[[Random], str]:
    def made(rng: Random) -> str:
        digits = prefix + "".join(rng.choices(string.digits, k=size - len(prefix) - 1))
        return next(f"{digits}{last}" for last in string.digits if luhn(f"{digits}{last}"))

    return made


def _grouped(maker: Maker, mark: str, sizes: tuple[int, ...] = (4, 4, 4, 4)) -> Maker:
    def made(rng: Random) -> str:
        digits, parts = maker(rng), []
        for size in sizes:
            parts.append(digits[:size])
            digits = digits[size:]
        return mark.join(parts)

    return made


def _no_card(rng: Random) -> str:
    digits = "4" + "".join(rng.choices(string.digits, k=14))
    return next(f"{digits}{last}" for last in string.digits if not luhn(f"{digits}{last}"))


def _strong(rng: Random) -> str:
    """A password as a manager makes it."""
    marks = "!#%*+-=?@_"
    core = [rng.choice(string.ascii_lowercase), rng.choice(string.ascii_uppercase), rng.choice(string.digits)]
    core += rng.choices(_ALNUM + marks, k=9)
    rng.shuffle(core)
    return rng.choice(string.ascii_letters) + "".join(core) + rng.choice(string.digits)


def _human(rng: Random) -> str:
    """A password as a person makes it."""
    return f"{rng.choice(_WORDS).capitalize()}{rng.randrange(10, 99)}{rng.choice('!#*?')}"


def _leet(rng: Random) -> str:
    word = rng.choice([each for each in _WORDS if "e" in each or "a" in each])
    return f"{word.replace('e', '3').replace('a', '4')}{rng.randrange(100, 999)}"


def _basic(rng: Random) -> str:
    return base64.b64encode(f"{rng.choice(_WORDS)}:{_strong(rng)}".encode()).decode()


def _uuid(rng: Random) -> str:
    hexes = "".join(rng.choices(_HEX, k=32))
    return "-".join((hexes[:8], hexes[8:12], f"4{hexes[13:16]}", f"a{hexes[17:20]}", hexes[20:]))


def _iban(rng: Random) -> str:
    account = "".join(rng.choices(string.digits, k=18))
    check = 98 - int(f"{account}131400") % 97  # DE00
    return f"DE{check:02d}{account}"


def _image(rng: Random) -> str:
    return "iVBORw0KGgoAAAANSUhEUg" + base64.b64encode(rng.randbytes(600)).decode()


def _discord(rng: Random) -> str:
    number = str(rng.randrange(10**17, 10**18))
    return ".".join((_url64(number), "".join(rng.choices(_URL64, k=6)), "".join(rng.choices(_ALNUM, k=38))))


def _imei(rng: Random) -> str:
    digits = "35" + "".join(rng.choices(string.digits, k=12))
    return next(f"{digits}{last}" for last in string.digits if luhn(f"{digits}{last}"))


SECRETS: Mapping[str, Maker] = MappingProxyType(
    {
        "aws_id": _token("AKIA", _UPPER, 16),
        "aws_temp": _token("ASIA", _UPPER, 16),
        "aws_secret": _run(_B64, 40),
        "aws_session": _token("IQoJb3JpZ2luX2VjE", _B64, 320),
        "google": _token("AIzaSy", _URL64, 33),
        "google_oauth": _token("GOCSPX-", _URL64, 28),
        "google_access": _token("ya29.a0", _URL64, 120),
        "google_refresh": _token("1//0g", _URL64, 64),
        "azure_key": _b64(64),
        "azure_bus": _b64(32),
        "azure_sig": lambda rng: (
            base64.b64encode(rng.randbytes(32))
            .decode()
            .replace("+", "%2B")
            .replace("/", "%2F")
            .replace("=", "%3D")
        ),
        "azure_client": lambda rng: f"{_run(_ALNUM, 3)(rng)}8Q~{_run(_ALNUM, 34)(rng)}",
        "openai_old": _token("sk-", _ALNUM, 48),
        "openai": lambda rng: f"sk-proj-{_run(_URL64, 73)(rng)}T3BlbkFJ{_run(_URL64, 72)(rng)}w",
        "openai_service": lambda rng: f"sk-svcacct-{_run(_ALNUM, 60)(rng)}",
        "anthropic": lambda rng: f"sk-ant-api03-{_run(_URL64, 90)(rng)}AA",
        "openrouter": _token("sk-or-v1-", _HEX, 64),
        "deepseek": _token("sk-", _HEX, 32),
        "groq": _token("gsk_", _ALNUM, 52),
        "replicate": _token("r8_", _ALNUM, 37),
        "github": _with_crc("ghp_"),
        "github_oauth": _with_crc("gho_"),
        "github_app": _with_crc("ghs_"),
        "github_pat": lambda rng: f"github_pat_{_run(_ALNUM, 22)(rng)}_{_run(_ALNUM, 59)(rng)}",
        "gitlab": _token("glpat-", _URL64, 20),
        "gitlab_runner": _token("glrt-", _URL64, 20),
        "slack_bot": lambda rng: (
            f"xoxb-{_run(string.digits, 12)(rng)}-{_run(string.digits, 13)(rng)}-{_run(_ALNUM, 24)(rng)}"
        ),
        "slack_user": lambda rng: (
            f"xoxp-{_run(string.digits, 12)(rng)}-{_run(string.digits, 12)(rng)}"
            f"-{_run(string.digits, 13)(rng)}-{_run(_HEX, 32)(rng)}"
        ),
        "slack_app": lambda rng: (
            f"xapp-1-A0{_run(string.ascii_uppercase, 9)(rng)}"
            f"-{_run(string.digits, 13)(rng)}-{_run(_HEX, 64)(rng)}"
        ),
        "slack_path": lambda rng: (
            f"T0{_run(string.ascii_uppercase, 8)(rng)}/B0{_run(string.ascii_uppercase, 8)(rng)}"
            f"/{_run(_ALNUM, 24)(rng)}"
        ),
        "stripe": _token("sk_live_", _ALNUM, 24),
        "stripe_long": _token("sk_live_51", _ALNUM, 97),
        "stripe_restricted": _token("rk_live_", _ALNUM, 24),
        "stripe_hook": _token("whsec_", _ALNUM, 32),
        "twilio": _token("SK", _HEX, 32),
        "sendgrid": lambda rng: f"SG.{_run(_URL64, 22)(rng)}.{_run(_URL64, 42)(rng)}x",
        "npm": _with_crc("npm_"),
        "pypi": lambda rng: f"pypi-AgEIcHlwaS5vcmc{_run(_ALNUM, 150)(rng)}",
        "docker": lambda rng: f"dckr_pat_{_run(_ALNUM, 27)(rng)}",
        "hugging_face": _token("hf_", string.ascii_letters, 34),
        "telegram": lambda rng: f"{rng.randrange(10**9, 10**10)}:AA{_run(_ALNUM, 33)(rng)}",
        "discord": _discord,
        "discord_path": lambda rng: f"{_run(_ALNUM, 68)(rng)}",
        "digitalocean": _token("dop_v1_", _HEX, 64),
        "databricks": _token("dapi", _HEX, 32),
        "shopify": _token("shpat_", _HEX, 32),
        "square": _token("sq0csp-", _ALNUM, 43),
        "square_access": lambda rng: f"EAAAl{_run(_ALNUM, 59)(rng)}",
        "mailgun": _token("key-", _HEX, 32),
        "mailgun_new": lambda rng: f"{_run(_HEX, 32)(rng)}-{_run(_HEX, 8)(rng)}-{_run(_HEX, 8)(rng)}",
        "mailchimp": lambda rng: f"{_run(_HEX, 32)(rng)}-us{rng.randrange(1, 21)}",
        "linear": _token("lin_api_", _ALNUM, 40),
        "notion": _token("secret_", _ALNUM, 43),
        "notion_new": _token("ntn_", _ALNUM, 46),
        "vault": lambda rng: f"hvs.{_run(_ALNUM, 24)(rng)}",
        "atlassian": lambda rng: f"ATATT3xFfGF0{_run(_ALNUM, 180)(rng)}={_run('0123456789ABCDEF', 8)(rng)}",
        "figma": lambda rng: f"figd_{_run(_ALNUM, 40)(rng)}",
        "grafana": lambda rng: f"glsa_{_run(_ALNUM, 32)(rng)}_{_run(_HEX, 8)(rng)}",
        "netlify": _token("nfp_", _ALNUM, 36),
        "supabase": _token("sbp_", _HEX, 40),
        "pulumi": _token("pul-", _HEX, 40),
        "jwt": _jwt,
        "rsa": _pem("RSA PRIVATE KEY", size=600),
        "pkcs8": _pem("PRIVATE KEY", size=800),
        "pkcs8_escaped": _pem("PRIVATE KEY", size=800, end="\\n"),
        "ec": _pem("EC PRIVATE KEY", size=118),
        "openssh": _pem("OPENSSH PRIVATE KEY", size=300),
        "pgp": _pem("PGP PRIVATE KEY BLOCK", size=500, head="Version: GnuPG v2"),
        "encrypted": _pem("ENCRYPTED PRIVATE KEY", size=700),
        "age": _token("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "strong": _strong,
        "human": _human,
        "leet": _leet,
        "word": lambda rng: rng.choice(_WORDS),
        "passphrase": lambda rng: "-".join(rng.sample(_WORDS, 4)),
        "passphrase_spaced": lambda rng: " ".join(rng.sample(_WORDS, 4)),
        "basic": _basic,
        "b64": lambda rng: base64.b64encode(_strong(rng).encode()).decode(),
        "hex32": _run(_HEX, 32),
        "hex40": _run(_HEX, 40),
        "hex64": _run(_HEX, 64),
        "random20": _run(_ALNUM, 20),
        "random32": _run(_ALNUM, 32),
        "random43": _run(_URL64.replace("-", ""), 43),
        "random64": _run(_ALNUM, 64),
        "uuid": _uuid,
        "django": lambda rng: (
            f"django-insecure-{_run(string.ascii_lowercase + string.digits + '!@#$%^&*(-_=+)', 49)(rng)}x"
        ),
        "visa": _card("4539", 16),
        "mastercard": _card("5404", 16),
        "amex": _card("3782", 15),
        "discover": _card("6011", 16),
        "visa_spaced": _grouped(_card("4916", 16), " "),
        "visa_dashed": _grouped(_card("4485", 16), "-"),
        "mastercard_spaced": _grouped(_card("5299", 16), " "),
        "amex_spaced": _grouped(_card("3714", 15), " ", (4, 6, 5)),
        "pin": lambda rng: str(rng.randrange(1357, 9864)),
        "cvv": lambda rng: str(rng.randrange(123, 987)),
    }
)
"""What makes secrets, by name."""

LOOK_ALIKES: Mapping[str, Maker] = MappingProxyType(
    {
        "sha1": _run(_HEX, 40),
        "sha256": _run(_HEX, 64),
        "sha256_b64": _b64(32),
        "sha512_b64": _b64(64),
        "md5": _run(_HEX, 32),
        "short_sha": _run(_HEX, 7),
        "uuid": _uuid,
        "ulid": lambda rng: "01H" + _run("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 23)(rng),
        "object_id": _run(_HEX, 24),
        "record_id": _run(_HEX, 12),
        "image": _image,
        "blob": lambda rng: base64.b64encode(rng.randbytes(900)).decode(),
        "blob_lines": lambda rng: "\n".join(_run(_B64, 76)(rng) for _ in range(8)),
        "no_card": _no_card,
        "luhn16": _card("4539", 16),
        "imei": _imei,
        "digits16": lambda rng: str(rng.randrange(10**15, 3 * 10**15)),
        "snowflake": lambda rng: str(rng.randrange(10**17, 10**18)),
        "phone": lambda rng: f"+49 30 {rng.randrange(10**6, 10**7)}",
        "isbn": lambda rng: (
            f"978-3-{rng.randrange(10, 99)}-{rng.randrange(100000, 999999)}-{rng.randrange(10)}"
        ),
        "iban": _iban,
        "epoch_us": lambda rng: str(rng.randrange(1_600_000_000_000_000, 1_800_000_000_000_000)),
        "ssh_fp": lambda rng: f"SHA256:{base64.b64encode(rng.randbytes(32)).decode().rstrip('=')}",
        "ssh_pub": lambda rng: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_run(_B64, 43)(rng)}",
        "rsa_pub": lambda rng: f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{_run(_B64, 340)(rng)}",
        "public_pem": _pem("PUBLIC KEY", size=270),
        "certificate": _pem("CERTIFICATE", size=700),
        "pgp_public": _pem("PGP PUBLIC KEY BLOCK", size=500),
        "json_b64": lambda rng: _url64(json.dumps({"page": rng.randrange(99), "after": rng.choice(_WORDS)})),
        "otp": lambda rng: str(rng.randrange(100_000, 999_999)),
        "nanoid": _run(_URL64, 21),
        "word": lambda rng: rng.choice(_WORDS),
        "version": lambda rng: f"{rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(99)}",
        "bcrypt": lambda rng: f"$2b$12${_run('./' + _ALNUM, 53)(rng)}",
        "trace": lambda rng: f"00-{_run(_HEX, 32)(rng)}-{_run(_HEX, 16)(rng)}-01",
        "eth": lambda rng: f"0x{_run(_HEX, 40)(rng)}",
        "tracking": lambda rng: f"1Z{_run(string.ascii_uppercase + string.digits, 16)(rng)}",
        "build": lambda rng: (
            f"{rng.randrange(2020, 2026)}{rng.randrange(10, 12)}{rng.randrange(10, 28)}.{rng.randrange(1, 9)}"
        ),
    }
)
"""What makes things that are no secrets, by name."""
