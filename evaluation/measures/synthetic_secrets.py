"""Generators of realistic secrets, and of texts that only look like secrets, from a seed.

The labelled texts hold names of makers in their places, so that no file of the repository has anything in it
that a scanner, or a provider, could take for a key. Checksums are right where the format has one.
"""

from __future__ import annotations

import base64
import binascii
import json
import string
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from reverie.domain.secrets.rules import is_luhn_valid

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
_SEED_WORDS = tuple(
    """
    canyon fossil glide harvest ivory jungle kitten ladder lunar magnet marble noodle
    orbit oyster pepper quantum raven ribbon saddle timber umbrella velvet walnut window
    """.split()  # noqa: SIM905 - as a list it would take a page
)
Maker = Callable[[Random], str]


def _run(alphabet: str, size: int) -> Maker:
    return lambda rng: "".join(rng.choices(alphabet, k=size))


def _build_token_maker(prefix: str, alphabet: str, size: int, suffix: str = "") -> Maker:
    made = _run(alphabet, size)
    return lambda rng: f"{prefix}{made(rng)}{suffix}"


def _compute_crc62(text: str) -> str:
    """Return the checksum at the end of tokens of GitHub and npm: the CRC-32 in base 62, padded to six digits."""
    base62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
    number, checksum = binascii.crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        checksum = base62[digit] + checksum
    return checksum


def _build_crc_maker(prefix: str) -> Maker:
    def made(rng: Random) -> str:
        payload = "".join(rng.choices(_ALNUM, k=30))
        return f"{prefix}{payload}{_compute_crc62(payload)}"

    return made


def _build_base64_maker(size: int) -> Maker:
    return lambda rng: base64.b64encode(rng.randbytes(size)).decode()


def _encode_url64(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _make_jwt(rng: Random) -> str:
    head = json.dumps({"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = json.dumps({"sub": str(rng.randrange(10**9)), "name": rng.choice(_WORDS), "iat": 1_700_000_000})
    return ".".join((_encode_url64(head), _encode_url64(body), _encode_url64(rng.randbytes(32))))


def _build_pem_maker(name: str, *, size: int, end: str = "\n", head: str = "") -> Maker:
    def made(rng: Random) -> str:
        body = base64.b64encode(rng.randbytes(size)).decode()
        lines = [body[place : place + 64] for place in range(0, len(body), 64)]
        marks = (f"-----{word} {name}-----" for word in ("BEGIN", "END"))
        begin, last = marks
        return end.join([begin, *([head, ""] if head else []), *lines, last])

    return made


def _build_card_maker(prefix: str, size: int) -> Callable[[Random], str]:
    def made(rng: Random) -> str:
        digits = prefix + "".join(rng.choices(string.digits, k=size - len(prefix) - 1))
        return next(f"{digits}{last}" for last in string.digits if is_luhn_valid(f"{digits}{last}"))

    return made


def _build_grouped_maker(maker: Maker, mark: str, sizes: tuple[int, ...] = (4, 4, 4, 4)) -> Maker:
    def made(rng: Random) -> str:
        digits, parts = maker(rng), []
        for size in sizes:
            parts.append(digits[:size])
            digits = digits[size:]
        return mark.join(parts)

    return made


def _make_invalid_card(rng: Random) -> str:
    digits = "4" + "".join(rng.choices(string.digits, k=14))
    return next(f"{digits}{last}" for last in string.digits if not is_luhn_valid(f"{digits}{last}"))


def _make_strong_password(rng: Random) -> str:
    """Generate a password in the style of a password manager."""
    marks = "!#%*+-=?@_"
    core = [rng.choice(string.ascii_lowercase), rng.choice(string.ascii_uppercase), rng.choice(string.digits)]
    core += rng.choices(_ALNUM + marks, k=9)
    rng.shuffle(core)
    return rng.choice(string.ascii_letters) + "".join(core) + rng.choice(string.digits)


def _make_human_password(rng: Random) -> str:
    """Generate a password in the style of a person."""
    return f"{rng.choice(_WORDS).capitalize()}{rng.randrange(10, 99)}{rng.choice('!#*?')}"


def _make_leet_password(rng: Random) -> str:
    word = rng.choice([each for each in _WORDS if "e" in each or "a" in each])
    return f"{word.replace('e', '3').replace('a', '4')}{rng.randrange(100, 999)}"


def _make_basic_credentials(rng: Random) -> str:
    return base64.b64encode(f"{rng.choice(_WORDS)}:{_make_strong_password(rng)}".encode()).decode()


def _make_uuid(rng: Random) -> str:
    hexes = "".join(rng.choices(_HEX, k=32))
    return "-".join((hexes[:8], hexes[8:12], f"4{hexes[13:16]}", f"a{hexes[17:20]}", hexes[20:]))


def _make_iban(rng: Random) -> str:
    account = "".join(rng.choices(string.digits, k=18))
    check = 98 - int(f"{account}131400") % 97  # DE00
    return f"DE{check:02d}{account}"


def _make_image(rng: Random) -> str:
    return "iVBORw0KGgoAAAANSUhEUg" + base64.b64encode(rng.randbytes(600)).decode()


def _make_discord_token(rng: Random) -> str:
    number = str(rng.randrange(10**17, 10**18))
    return ".".join(
        (_encode_url64(number), "".join(rng.choices(_URL64, k=6)), "".join(rng.choices(_ALNUM, k=38)))
    )


def _make_imei(rng: Random) -> str:
    digits = "35" + "".join(rng.choices(string.digits, k=12))
    return next(f"{digits}{last}" for last in string.digits if is_luhn_valid(f"{digits}{last}"))


SECRETS: Mapping[str, Maker] = MappingProxyType(
    {
        "aws_id": _build_token_maker("AKIA", _UPPER, 16),
        "aws_temp": _build_token_maker("ASIA", _UPPER, 16),
        "aws_secret": _run(_B64, 40),
        "aws_session": _build_token_maker("IQoJb3JpZ2luX2VjE", _B64, 320),
        "google": _build_token_maker("AIzaSy", _URL64, 33),
        "google_oauth": _build_token_maker("GOCSPX-", _URL64, 28),
        "google_access": _build_token_maker("ya29.a0", _URL64, 120),
        "google_refresh": _build_token_maker("1//0g", _URL64, 64),
        "azure_key": _build_base64_maker(64),
        "azure_bus": _build_base64_maker(32),
        "azure_sig": lambda rng: (
            base64.b64encode(rng.randbytes(32))
            .decode()
            .replace("+", "%2B")
            .replace("/", "%2F")
            .replace("=", "%3D")
        ),
        "azure_client": lambda rng: f"{_run(_ALNUM, 3)(rng)}8Q~{_run(_ALNUM, 34)(rng)}",
        "openai_old": _build_token_maker("sk-", _ALNUM, 48),
        "openai": lambda rng: f"sk-proj-{_run(_URL64, 73)(rng)}T3BlbkFJ{_run(_URL64, 72)(rng)}w",
        "openai_service": lambda rng: f"sk-svcacct-{_run(_ALNUM, 60)(rng)}",
        "anthropic": lambda rng: f"sk-ant-api03-{_run(_URL64, 90)(rng)}AA",
        "openrouter": _build_token_maker("sk-or-v1-", _HEX, 64),
        "deepseek": _build_token_maker("sk-", _HEX, 32),
        "groq": _build_token_maker("gsk_", _ALNUM, 52),
        "replicate": _build_token_maker("r8_", _ALNUM, 37),
        "github": _build_crc_maker("ghp_"),
        "github_oauth": _build_crc_maker("gho_"),
        "github_app": _build_crc_maker("ghs_"),
        "github_pat": lambda rng: f"github_pat_{_run(_ALNUM, 22)(rng)}_{_run(_ALNUM, 59)(rng)}",
        "gitlab": _build_token_maker("glpat-", _URL64, 20),
        "gitlab_runner": _build_token_maker("glrt-", _URL64, 20),
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
        "stripe": _build_token_maker("sk_live_", _ALNUM, 24),
        "stripe_long": _build_token_maker("sk_live_51", _ALNUM, 97),
        "stripe_restricted": _build_token_maker("rk_live_", _ALNUM, 24),
        "stripe_hook": _build_token_maker("whsec_", _ALNUM, 32),
        "twilio": _build_token_maker("SK", _HEX, 32),
        "sendgrid": lambda rng: f"SG.{_run(_URL64, 22)(rng)}.{_run(_URL64, 42)(rng)}x",
        "npm": _build_crc_maker("npm_"),
        "pypi": lambda rng: f"pypi-AgEIcHlwaS5vcmc{_run(_ALNUM, 150)(rng)}",
        "docker": lambda rng: f"dckr_pat_{_run(_ALNUM, 27)(rng)}",
        "hugging_face": _build_token_maker("hf_", string.ascii_letters, 34),
        "telegram": lambda rng: f"{rng.randrange(10**9, 10**10)}:AA{_run(_ALNUM, 33)(rng)}",
        "discord": _make_discord_token,
        "discord_path": lambda rng: f"{_run(_ALNUM, 68)(rng)}",
        "digitalocean": _build_token_maker("dop_v1_", _HEX, 64),
        "databricks": _build_token_maker("dapi", _HEX, 32),
        "shopify": _build_token_maker("shpat_", _HEX, 32),
        "square": _build_token_maker("sq0csp-", _ALNUM, 43),
        "square_access": lambda rng: f"EAAAl{_run(_ALNUM, 59)(rng)}",
        "mailgun": _build_token_maker("key-", _HEX, 32),
        "mailgun_new": lambda rng: f"{_run(_HEX, 32)(rng)}-{_run(_HEX, 8)(rng)}-{_run(_HEX, 8)(rng)}",
        "mailchimp": lambda rng: f"{_run(_HEX, 32)(rng)}-us{rng.randrange(1, 21)}",
        "linear": _build_token_maker("lin_api_", _ALNUM, 40),
        "notion": _build_token_maker("secret_", _ALNUM, 43),
        "notion_new": _build_token_maker("ntn_", _ALNUM, 46),
        "vault": lambda rng: f"hvs.{_run(_ALNUM, 24)(rng)}",
        "atlassian": lambda rng: f"ATATT3xFfGF0{_run(_ALNUM, 180)(rng)}={_run('0123456789ABCDEF', 8)(rng)}",
        "figma": lambda rng: f"figd_{_run(_ALNUM, 40)(rng)}",
        "grafana": lambda rng: f"glsa_{_run(_ALNUM, 32)(rng)}_{_run(_HEX, 8)(rng)}",
        "netlify": _build_token_maker("nfp_", _ALNUM, 36),
        "supabase": _build_token_maker("sbp_", _HEX, 40),
        "pulumi": _build_token_maker("pul-", _HEX, 40),
        "jwt": _make_jwt,
        "rsa": _build_pem_maker("RSA PRIVATE KEY", size=600),
        "pkcs8": _build_pem_maker("PRIVATE KEY", size=800),
        "pkcs8_escaped": _build_pem_maker("PRIVATE KEY", size=800, end="\\n"),
        "ec": _build_pem_maker("EC PRIVATE KEY", size=118),
        "openssh": _build_pem_maker("OPENSSH PRIVATE KEY", size=300),
        "pgp": _build_pem_maker("PGP PRIVATE KEY BLOCK", size=500, head="Version: GnuPG v2"),
        "encrypted": _build_pem_maker("ENCRYPTED PRIVATE KEY", size=700),
        "age": _build_token_maker("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "strong": _make_strong_password,
        "human": _make_human_password,
        "leet": _make_leet_password,
        "word": lambda rng: rng.choice(_WORDS),
        "passphrase": lambda rng: "-".join(rng.sample(_WORDS, 4)),
        "passphrase_spaced": lambda rng: " ".join(rng.sample(_WORDS, 4)),
        "basic": _make_basic_credentials,
        "b64": lambda rng: base64.b64encode(_make_strong_password(rng).encode()).decode(),
        "hex32": _run(_HEX, 32),
        "hex40": _run(_HEX, 40),
        "hex64": _run(_HEX, 64),
        "random20": _run(_ALNUM, 20),
        "random32": _run(_ALNUM, 32),
        "random43": _run(_URL64.replace("-", ""), 43),
        "random64": _run(_ALNUM, 64),
        "uuid": _make_uuid,
        "django": lambda rng: (
            f"django-insecure-{_run(string.ascii_lowercase + string.digits + '!@#$%^&*(-_=+)', 49)(rng)}x"
        ),
        "visa": _build_card_maker("4539", 16),
        "mastercard": _build_card_maker("5404", 16),
        "amex": _build_card_maker("3782", 15),
        "discover": _build_card_maker("6011", 16),
        "visa_spaced": _build_grouped_maker(_build_card_maker("4916", 16), " "),
        "visa_dashed": _build_grouped_maker(_build_card_maker("4485", 16), "-"),
        "mastercard_spaced": _build_grouped_maker(_build_card_maker("5299", 16), " "),
        "amex_spaced": _build_grouped_maker(_build_card_maker("3714", 15), " ", (4, 6, 5)),
        "pin": lambda rng: str(rng.randrange(1357, 9864)),
        "cvv": lambda rng: str(rng.randrange(123, 987)),
        "pin6": lambda rng: str(rng.randrange(135_790, 986_420)),
        "combination": lambda rng: "-".join(str(rng.randrange(10, 99)) for _ in range(3)),
        "ssn": lambda rng: f"{rng.randrange(101, 665)}-{rng.randrange(10, 99)}-{rng.randrange(1000, 9999)}",
        "ssn_plain": lambda rng: str(rng.randrange(101_101_001, 665_999_999)),
        "seed_phrase": lambda rng: " ".join(rng.sample(_SEED_WORDS, 12)),
        "recovery_code": lambda rng: f"{_run(_HEX, 5)(rng)}-{_run(_HEX, 5)(rng)}",
        "recovery_key": lambda rng: "-".join(_run(_UPPER, 4)(rng) for _ in range(7)),
        "digits8": lambda rng: str(rng.randrange(10_234_567, 98_765_432)),
        "bitlocker": lambda rng: "-".join(f"{11 * rng.randrange(2**16):06}" for _ in range(8)),
    }
)
"""Generators of secrets, by name."""

LOOK_ALIKES: Mapping[str, Maker] = MappingProxyType(
    {
        "sha1": _run(_HEX, 40),
        "sha256": _run(_HEX, 64),
        "sha256_b64": _build_base64_maker(32),
        "sha512_b64": _build_base64_maker(64),
        "md5": _run(_HEX, 32),
        "short_sha": _run(_HEX, 7),
        "uuid": _make_uuid,
        "ulid": lambda rng: "01H" + _run("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 23)(rng),
        "object_id": _run(_HEX, 24),
        "record_id": _run(_HEX, 12),
        "image": _make_image,
        "blob": lambda rng: base64.b64encode(rng.randbytes(900)).decode(),
        "blob_lines": lambda rng: "\n".join(_run(_B64, 76)(rng) for _ in range(8)),
        "no_card": _make_invalid_card,
        "luhn16": _build_card_maker("4539", 16),
        "imei": _make_imei,
        "digits16": lambda rng: str(rng.randrange(10**15, 3 * 10**15)),
        "snowflake": lambda rng: str(rng.randrange(10**17, 10**18)),
        "phone": lambda rng: f"+49 30 {rng.randrange(10**6, 10**7)}",
        "isbn": lambda rng: (
            f"978-3-{rng.randrange(10, 99)}-{rng.randrange(100000, 999999)}-{rng.randrange(10)}"
        ),
        "iban": _make_iban,
        "epoch_us": lambda rng: str(rng.randrange(1_600_000_000_000_000, 1_800_000_000_000_000)),
        "ssh_fp": lambda rng: f"SHA256:{base64.b64encode(rng.randbytes(32)).decode().rstrip('=')}",
        "ssh_pub": lambda rng: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_run(_B64, 43)(rng)}",
        "rsa_pub": lambda rng: f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{_run(_B64, 340)(rng)}",
        "public_pem": _build_pem_maker("PUBLIC KEY", size=270),
        "certificate": _build_pem_maker("CERTIFICATE", size=700),
        "pgp_public": _build_pem_maker("PGP PUBLIC KEY BLOCK", size=500),
        "json_b64": lambda rng: _encode_url64(
            json.dumps({"page": rng.randrange(99), "after": rng.choice(_WORDS)})
        ),
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
"""Generators of harmless look-alikes, by name."""
