"""What is taken for a secret and what is not, what takes its place, and how long that takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from random import Random

import pytest
from evaluation.measures.synthetic_secrets import LOOK_ALIKES, SECRETS
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.errors import InvalidInput
from reverie.domain.secrets.named import TRIGGERS
from reverie.domain.secrets.redactor import KINDS, OWN, Redactor, redact_secrets
from reverie.domain.secrets.rules import load_table
from reverie.domain.secrets.values import (
    is_card,
    is_jwt,
    is_placeholder,
    is_random,
)
from reverie.domain.user_patterns import build_redactor, explain_unsafe_pattern
from tests.profiles import examples

REDACTOR = Redactor()


def made(name: str, seed: int = 1) -> str:
    return SECRETS[name](Random(seed))


UNMISTAKABLE = sorted(
    set(SECRETS)
    - {"aws_secret", "aws_session", "azure_key", "azure_bus", "azure_sig", "slack_path", "discord_path"}
    - {"strong", "human", "leet", "word", "passphrase", "passphrase_spaced", "basic", "b64", "pin", "cvv"}
    - {"hex32", "hex40", "hex64", "random20", "random32", "random43", "random64", "uuid", "django"}
    - {"pin6", "combination", "ssn", "ssn_plain", "seed_phrase"}
    - {"recovery_code", "recovery_key", "digits8", "bitlocker"}
)


def test_what_has_a_form_of_its_own_is_found_without_a_word_about_it() -> None:
    for name in UNMISTAKABLE:
        for seed in range(5):
            secret = made(name, seed)
            for text in (secret, f"see {secret}.", f"({secret})", f'"{secret}"', f"a\n{secret}\nb"):
                clean = REDACTOR.text(text)
                assert secret not in clean, text
                assert "[redacted: " in clean


def test_what_only_looks_like_one_stays() -> None:
    for name in sorted(LOOK_ALIKES):
        kept = 0
        for seed in range(20):
            text = f"it is {LOOK_ALIKES[name](Random(seed))} there"
            kept += REDACTOR.text(text) == text
        assert kept >= (20 if name != "luhn16" else 0)


def test_the_kind_takes_the_place_and_nothing_of_the_secret_does() -> None:
    one, other = (f"my key is {made('openai', seed)}, keep it" for seed in (1, 2))
    assert REDACTOR.text(one) == REDACTOR.text(other) == "my key is [redacted: openai key], keep it"
    assert REDACTOR.find(one)[0].kind in KINDS


def test_every_kind_of_a_span_is_listed() -> None:
    for name in SECRETS:
        assert set(REDACTOR.kinds(f"password: {made(name)}")) <= set(KINDS)


def test_a_bare_password_is_found_again_where_a_word_has_told_it() -> None:
    text = "password: hunter2x\nI typed hunter2x twice and hunter2x failed"
    assert "hunter2x" not in REDACTOR.text(text)


def test_a_secret_on_another_line_or_in_a_cell_is_found() -> None:
    for text in [
        "Password:\n{}",
        "Password:\n\n    {}\n",
        "Passwort:\r\n{}\r\n",
        "Password:\n```\n{}\n```",
        "password: '''\n{}\n'''",
        'PASSWORD = """{}"""',
        "password: |\n  {}\n",
        "password: >-\n  {}\n",
        "password: !!str {}",
        "client_secret: !vault |\n  {}",
        '{{"password":\n   "{}"}}',
        '{{"text": "Password:\\n{}"}}',
        '{{"text": "Password:\\n{}\\n", "a": 1}}',
        "Password (prod): {}",
        "password - {}",
        "contraseña — {}",
        "password → {}",
        'set_password("{}")',
        "WIFI:T:WPA;S:Home;P:{};;",
        "| Password | {} |",
        "| user | Passwort |\n|---|---|\n| admin | `{}` |\n\nText",
        "name,url,username,password\nForge,https://forge.example,me,{}\n",
        "usuario;contraseña\r\nana;{}\r\n",
        "host\tpassword\na\tx1\nb\t{}",
    ]:
        secret = "kT9x-2vQ7zLp"
        clean = REDACTOR.text(text.format(secret))
        assert secret not in clean
        assert re.sub(r"\[redacted: \w+\]", secret, clean) == text.format(secret)


def test_a_password_is_found_near_the_word_and_in_commands() -> None:
    for text in [
        "Password 1: {}",
        "Password? It's {}.",
        "The password, as agreed, is {}",
        "The password for https://forge.example is {}",
        "Cambié mi contraseña por {}",
        "비밀번호는 {} 입니다",
        "Use {} as the password",
        "{} is my wifi password now",
        "ssh anna:{}@host.example",
        "DATABASE_URL=anna:{}@db.example.com:5432/x",
        "echo '{}' | docker login -u anna --password-stdin",
        "echo {} | sudo -S apt update",
        "7z x -p{} a.7z",
        "zip -r -P {} a.zip b",
        "redis-cli -h db -a {} ping",
        "sqlcmd -U sa -P {}",
        "openssl enc -aes-256-cbc -k {}",
        "CREATE USER anna IDENTIFIED BY {};",
        '<input type="password" name="p" value="{}">',
        "ConvertTo-SecureString '{}' -AsPlainText",
    ]:
        secret = "Tr0ub4dor&3"
        clean = REDACTOR.text(text.format(secret))
        assert secret not in clean
        assert re.sub(r"\[redacted: \w+\]", secret, clean) == text.format(secret)


def test_what_follows_such_a_word_on_another_line_is_no_secret_by_that() -> None:
    for text in [
        "The password must have a digit and one of !@#$%",
        "Our password manager is 50%off today",
        "See PR#4521 and C++20 about the password",
        "The password reset for user1@example.com failed",
        "The password hash is $argon2id$v=19$m=65536",
        "mailto:bob.smith1@example.com about the password",
        "echo Hello2World! | tee log",
        "Species identified by Smith2004",
        "Ask for the password, then run f(x1)+g!",
        "Password:\nUsername: bob",
        "password:\n  min_length: 8\n  required: true",
        "Forgot your password:\nClick here",
        "Reset the password:\nsupport@example.com",
        "# Password:\n\nv1.2 requires Python3.11",
        "password:\n- at least 12 characters\n- one digit",
        "Password:\n```python\nimport os2\n```",
        "if password:\n    doStuff9X()",
        "password: |\n          $ANSIBLE_VAULT;1.1;AES256",
        "change password - v2.3.1 notes",
        "password -> String",
        "Password (8-20 characters): ",
        'check_password("old_password")',
        "| Password | required |",
        "| field | password |\n|---|---|\n| type | string |",
        "a, pass, b\nc, d1, e2",
        "f(\n    self,\n    token,\n    region2,\n)",
    ]:
        assert REDACTOR.text(text) == text


def test_every_secret_of_a_sentence_or_list_is_found() -> None:
    for text, secrets in [
        ('Password: "correct horse battery staple"', ["correct horse battery staple"]),
        ('The wifi password is "blue dog sings".', ["blue dog sings"]),
        ("Das Passwort lautet „blaue Katze singt laut“", ["blaue Katze singt laut"]),
        ('password = "Correct Horse Battery Staple"', ["Correct Horse Battery Staple"]),
        ("I changed my password from hunter22 to hunter33.", ["hunter22", "hunter33"]),
        ("The wifi password was changed from Walnut7 to Cedar8", ["Walnut7", "Cedar8"]),
        ("Das Passwort wurde von Sommer20 auf Winter21 geändert", ["Sommer20", "Winter21"]),
        ("Mot de passe changé de soleil12 à neige34", ["soleil12", "neige34"]),
        ("Cambié la contraseña de verano12 a invierno34", ["verano12", "invierno34"]),
        ("The password was hunter22, now it's hunter33.", ["hunter22", "hunter33"]),
        ("My wifi password was Walnut7 but now it’s Cedar8.", ["Walnut7", "Cedar8"]),
        ('The password was "Walnut7". It is now "Cedar8"', ["Walnut7", "Cedar8"]),
        ("The password used to be Walnut7 and is now Cedar8", ["Walnut7", "Cedar8"]),
        ("passwords:\n- hunter22\n- wifi: Walnut7\n- `Cedar88`\n\nNotes", ["hunter22", "Walnut7", "Cedar88"]),
        ("## Passwords\n\n* router: Walnut77\n* mail (Ana) - Cedar88\n", ["Walnut77", "Cedar88"]),
        ("Passwörter:\n1. Router: Walnut77\n2. Cedar88", ["Walnut77", "Cedar88"]),
        ("passwords:\n  wifi: Walnut77\n  mail: Cedar88\nport: x8080", ["Walnut77", "Cedar88"]),
        ('{"passwords": "Walnut77"}', ["Walnut77"]),
        ("Passwords: Walnut77, Cedar88 and hunter22", ["Walnut77", "Cedar88", "hunter22"]),
        ('{"passwords": ["Walnut77", "Cedar88"], "port": "x8080"}', ["Walnut77", "Cedar88"]),
        ("ｐａｓｓｗｏｒｄ：hunter22", ["hunter22"]),
        ("Ｐａｓｓｗｏｒｔ: ｈｕｎｔｅｒ２２", ["ｈｕｎｔｅｒ２２"]),
        ("𝗽𝗮𝘀𝘀𝘄𝗼𝗿𝗱: hunter22", ["hunter22"]),
    ]:
        clean = REDACTOR.text(text)
        assert not [secret for secret in secrets if secret in clean]
        pieces = iter(secrets)
        assert re.sub(r"\[redacted: \w+\]", lambda _, pieces=pieces: next(pieces), clean) == text


def test_what_is_said_about_passwords_stays() -> None:
    for text in [
        'password: "Choose something memorable"',
        '"password": "Your new password"',
        '"password": "must be at least eight characters"',
        'The error for a wrong password is "the credentials are wrong"',
        "Changed the password length from 8chars to 12chars",
        "The password hash changed from md5crypt8 to sha512crypt",
        "The password policy changed from weak2 to strong3",
        "Moved the password from LastPass to 1Password",
        "The password was required, now it's optional2",
        "Passwords: rotated monthly, stored in 1Password",
        "Passwords:\n- at least 12 characters\n- never in git\n- rotate in Q3",
        "## Passwords\n\n* stored in 1Password\n* min length: 12\n",
        "passwords:\n  min_length: 12\n  history: 5\n  algorithm: argon2id\n",
        'passwords = ["one", "two"]',
        'answer = {"passes": ["first1", "second2"]}',
        "The passwords are rotated every 90 days: see RFC2104",
        "passwords:\n- see docs/auth2.md\n- https://vault.example/x1",
    ]:
        assert REDACTOR.text(text) == text


def test_the_name_in_a_mapping_speaks_of_all_of_its_value() -> None:
    for value in ['kT9x"2vQ7', "kT9x'2vQ7", "kT9x\n", "a\nkT9x2vQ7", "kT9x\\2vQ7", "“kT9x2vQ7”"]:
        assert REDACTOR.redact_mapping({"password": value}) == {"password": "[redacted: password]"}


def test_the_name_in_a_mapping_speaks_of_its_value() -> None:
    for name, value, kept in [
        ("password", "hunter2", False),
        ("DB_PASSWORD", "Sommer24!", False),
        ("note", "hunter2", True),
        ("token_count", "1834", True),
        ("color", "blue", True),
    ]:
        clean = REDACTOR.redact_mapping({name: value, "other": "x"})
        assert (clean[name] == value) == kept
        assert clean["other"] == "x"


def test_the_names_in_a_json_text_speak_of_all_of_their_values() -> None:
    given = {
        "password": ['kT9x"2vQ7', "kT9x 2vQ7!8"],
        "env": [{"name": "DB_PASSWORD", "value": "kT9x\n2vQ7"}, {"key": "COLOR", "value": "blue"}],
        "text": "Password:\nkT9x-2vQ7zLp\n",
        "count": 12,
    }
    clean = REDACTOR.json_text(json.dumps(given))
    assert json.loads(clean) == {
        "password": ["[redacted: password]"] * 2,
        "env": [{"name": "DB_PASSWORD", "value": "[redacted: password]"}, {"key": "COLOR", "value": "blue"}],
        "text": "Password:\n[redacted: password]\n",
        "count": 12,
    }
    assert REDACTOR.json_text(clean) == clean
    harmless = '{"a":  [1e5, "blue"] }'
    assert REDACTOR.json_text(harmless) is harmless
    assert REDACTOR.json_text("[" * 100_000) == "[" * 100_000
    assert REDACTOR.json_text("password: hunter2x") == "password: [redacted: password]"


def test_a_category_keeps_its_form() -> None:
    assert REDACTOR.redact_path(f"keys/{made('github')}/old") == "keys/redacted-github-token/old"
    assert REDACTOR.redact_path("user-preferences/style") == "user-preferences/style"


def test_a_name_is_judged_by_its_form_alone() -> None:
    assert REDACTOR.detect_secret_name(f"telegram:{made('visa')}") is None
    assert REDACTOR.detect_secret_name("password: hunter2") is None
    assert REDACTOR.detect_secret_name(made("gitlab")) == "gitlab token"


def test_switched_off_nothing_is_found() -> None:
    off = build_redactor(False, ("ZX-[0-9]+",))
    text = f"{made('openai')} and ZX-12"
    assert off.text(text) == text
    assert off.detect_secret_name(made("openai")) is None
    assert off.redact_mapping({"password": "hunter2"}) == {"password": "hunter2"}


def test_patterns_of_ones_own_go_beside_the_rules() -> None:
    own = build_redactor(True, (r"ZX-\d{6}", r"member (?P<value>[A-Z]{4})"))
    assert own.text("ZX-123456, member ABCD") == f"[redacted: {OWN}], member [redacted: {OWN}]"
    assert own.detect_secret_name("ZX-123456") == OWN


def test_an_argument_that_is_passed_is_no_password() -> None:
    for text in ["pass replace=True (--replace) to have it moved", "you may pass limit=10 to it"]:
        assert REDACTOR.text(text) == text


def test_patterns_that_match_anything_or_repeat_too_much_are_refused() -> None:
    for pattern in ["", "(", ".*", "[a-z]+", "x?", "((a{1000}){1000}){1000}", "q" * 501]:
        assert explain_unsafe_pattern(pattern)


def test_sound_patterns_are_taken() -> None:
    for pattern in [r"ZX-\d{6}", r"(?i)acme-[a-z0-9]{8,40}", r"member no\. (?P<value>\d+)"]:
        assert explain_unsafe_pattern(pattern) is None


# -- secrets in sentences ---------------------------------------------------------------------------------

WORDS = "pepper lunar ivory noodle umbrella window velvet walnut glide orbit magnet quantum"


def test_a_secret_in_a_sentence_is_redacted() -> None:
    for text, secret in [
        ("my ssn is 474-27-5622, put it in the form", "474-27-5622"),
        ("soc sec no. 192144155", "192144155"),
        ("PIN of my debit card is 5406", "5406"),
        ("el pin del móvil: 445201", "445201"),
        ("meine Geheimzahl ist 6043", "6043"),
        ("the alarm code is 2992", "2992"),
        ("the code for the front gate is 8885.", "8885"),
        ("the lock box code is 4712", "4712"),
        ("the combination of the lock box is 4713", "4713"),
        ("el código de la caja fuerte es 4719", "4719"),
        ("der Code für die Alarmanlage ist 5977", "5977"),
        ("le code de l'alarme est 3928", "3928"),
        ("el código de la alarma es 7210", "7210"),
        (f"my seed phrase is {WORDS}", WORDS),
        (f"wallet recovery phrase\n{WORDS}", WORDS),
        ("github recovery codes: 75ebf-e035b, 55238-dc686", "55238-dc686"),
        ("2FA backup code 16528733, use it once", "16528733"),
        ("pw: Pepper55*", "Pepper55*"),
        ("creds: anna / j2!41Wl+Ygp", "j2!41Wl+Ygp"),
        ("das Kennwort vom Router: ott3r561", "ott3r561"),
        ("la clave del wifi es Glacier65!", "Glacier65!"),
        ("mdp : ott3r252", "ott3r252"),
        ("The wifi code at our summer house is Strand-2231-Blau", "Strand-2231-Blau"),
        ("Der WLAN-Schlüssel lautet Tulpe4455", "Tulpe4455"),
        ("le code du wifi est soleil2244", "soleil2244"),
        ("pw = Sunny2Day", "Sunny2Day"),
        ("pw: correcthorse", "correcthorse"),
        ("the password? it's bluefish9", "bluefish9"),
        ("my password? It’s Tulip-Garden", "Tulip-Garden"),
        ("login bob / hunter22", "hunter22"),
        ("sign-in for the portal: ana | verano12", "verano12"),
        ("api key for openweather 3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c", "3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c"),
        ("the token for the home bridge Zq8Xw2Lp9Rt4Vb7Nk3Md", "Zq8Xw2Lp9Rt4Vb7Nk3Md"),
        ("otpauth://totp/Forge:ana?secret=JBSWY3DPEHPK3PXP&issuer=Forge", "JBSWY3DPEHPK3PXP"),
        ("recovery codes: abcd-ef12 a1b2c3d4e5 1234 5678", "a1b2c3d4e5"),
        ("otpauth%3A%2F%2Ftotp%2FForge%3Fsecret%3DJBSWY3DPEHPK3PXP", "JBSWY3DPEHPK3PXP"),
        ("the weather api key 3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c", "3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c"),
        ("api_key for maps 3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c", "3f2a9c8b7d6e5f4a3b2c1d0e9f8a7b6c"),
        ("log in with ana / Verano#12", "Verano#12"),
        ("sign in as ana | verano12", "verano12"),
        ("user ana / pass verano123", "verano123"),
        ("the password? it's bluefish", "bluefish"),
        ("what was the password again? I think it's bluefish", "bluefish"),
        ("das Passwort? es ist Sonnenblume", "Sonnenblume"),
        ("scratch codes\n2839 1022\n", "2839 1022"),
    ]:
        redacted = REDACTOR.text(text)
        assert secret not in redacted
        assert "[redacted: " in redacted


def test_a_sentence_without_a_secret_stays() -> None:
    for text in [
        "call me on 555-27-5622 about the order",
        "GPIO pin 4021 is set high",
        "pin the version to 2024",
        "the alarm is set to 7:30",
        "the error code for the door sensor is 4021",
        "the wifi code is on the fridge",
        "the wifi key exchange is WPA2 since 2019",
        "the lock box is 12 inches wide and 2024 is its model",
        "my postal code is 10115",
        "the house has 12 rooms and the door is green",
        "the seed of the random generator is 20240117",
        "keep the recovery codes in the safe since 2025-01-17",
        "this phrase has many words that are all plain and lower and that mean nothing secret at all",
        "the password must have 12 characters",
        "La clave es llegar antes de las 9",
        "we put the backup codes away in 2024",
        "pw = page_width",
        "pw = measure(x1)",
        "login page / users",
        "user story / epic",
        "the key for the shed is on the hook",
        "the password? it's in the vault",
        "the password? It's complicated",
        "Forgot your password? Click here",
        "the api key documentation page of the openweather-service-documentation",
        "the recovery codes are printed on 2025-01-17 and stored",
    ]:
        assert REDACTOR.text(text) == text


def test_an_own_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reverie.domain.secrets.redactor._PATTERN_TIMEOUT_S", 0.1)
    with pytest.raises(InvalidInput, match="takes too long"):
        build_redactor(True, ("(a|aa)+$",)).text("a" * 60 + "!")


# -- laws ----------------------------------------------------------------------------------------------

FRAGMENTS = [
    "password", "Password: ", " is ", "=", "token ", "api key ", "://", "@", ":", '"', "'", "\\", "\n", " ",
    "Authorization: Bearer ", "Cookie: ", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-", "AKIA", "[redacted: ",
]  # fmt: skip
PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(FRAGMENTS),
    st.tuples(st.sampled_from(sorted(SECRETS)), st.integers(0, 99)).map(lambda each: made(*each)),
    st.tuples(st.sampled_from(sorted(LOOK_ALIKES)), st.integers(0, 99)).map(
        lambda each: LOOK_ALIKES[each[0]](Random(each[1]))
    ),
)


@settings(max_examples=examples(150))
@given(st.lists(PIECES, max_size=12).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@settings(max_examples=examples(80))
@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_is_found_lies_in_the_text_in_order_and_apart(text: str) -> None:
    end = 0
    for span in REDACTOR.find(text):
        assert end <= span.start < span.end <= len(text)
        end = span.end


@settings(max_examples=examples(60))
@given(st.text(alphabet="İıſK\u0130aA:= pwdPASSWORDtoken1!\n", max_size=80))
def test_letters_whose_small_form_is_longer_shift_nothing(text: str) -> None:
    padded = f"{text} {made('github')} {text}"
    assert made("github") not in REDACTOR.text(padded)
    assert (
        REDACTOR.text("\u0130\u0130 password: Tr0ub4dor&3") == "\u0130\u0130 password: [redacted: password]"
    )


HOSTILE = [
    "a", "-", "password ", "password=", "password: '", 'token="', "x:", "://", "://a:", "://a:b", "@", ":@",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n", "eyJ", "eyJa.", "AKIA",
    "4111 ", "4", "1234-", "Cookie: a=", "cookie: ", "Bearer ", "Basic ", "\\", '\\"', "key ",
    "api key for a ", "sk-", "sk-a", "xoxb-1-", ".aaaaaa.", "AKIAABCDEFGHIJKLMNOP ", "<password>", "</",
    "value: ", "name: password value: ", " pin ", "my pin ", "mysql -p", "mysql a ", "--password ",
    " -u a:", "sig=", ";", "&a=", "password for a for b ", "\n", "is ", "passwordis", "ghp_",
    "Passwort für ", "密码", "[redacted: ", "0", "f", "deadbeef-", "password:\n", "password: |\n", "password: '''",
    "password(", "password (", "WIFI:a;", "password,a\n", "|password|a1|\n", 'password,"', "password - ",
    "passwords: a1b,", "passwords: [", "passwords:\n- a1b2\n", "- a1b2: ", "password from a1b2 to ", "password a b c ",
    "api_key=", "recovery codes: a1b2-c3d4 ", 'config = {"password": "hunter2", "token": os.environ["T"]}\n',
    'def login(user, password="kT9x-2vQ7zLp"):\n    self.password = password\n',
]  # fmt: skip


def find_slow(pieces: Iterable[str]) -> list[str]:
    """Return the pieces whose repetitions take more than eight times as long in a text of four times the length."""
    costs = {piece: measure_cost(piece, 2_000) for piece in pieces}
    return [piece for piece, cost in costs.items() if cost > 0.04 and measure_cost(piece, 8_000) > 8 * cost]


def test_hostile_texts_take_time_linear_in_their_length() -> None:
    assert not find_slow(HOSTILE)


@pytest.mark.slow
def test_every_rule_takes_time_linear_in_the_text() -> None:
    table = load_table()
    words = {trigger for rule in (*table.named, *table.forms, *table.frames) for trigger in rule.triggers}
    names = (words | set(TRIGGERS)) - {""}
    assert not find_slow(f"{name}{separator}" for name in sorted(names) for separator in ("", " ", "="))


def measure_cost(piece: str, length: int) -> float:
    """Seconds of processor time that repetitions of a piece take."""
    text = piece * (length // len(piece))
    before = time.process_time()
    Redactor().find(text)
    return time.process_time() - before


def test_a_text_with_too_many_names_is_redacted_where_it_was_not_checked() -> None:
    text = "password = x\n" * 6_000 + "password = kT9x-2vQ7zLp\n"
    clean = REDACTOR.text(text)
    assert clean.startswith("password = x\npassword = x\n")
    assert clean.endswith("[redacted: unchecked text]\n")
    assert "kT9x" not in clean
    assert REDACTOR.text(clean) == clean


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_long_hostile_texts_are_redacted() -> None:
    for piece in HOSTILE:
        text = piece * (100_000 // len(piece))
        once = REDACTOR.text(text)
        assert REDACTOR.text(once) == once


@pytest.mark.slow
def test_a_megabyte_of_harmless_text_stays_as_it_is() -> None:
    words = (
        "the deploy of service-42 on 2024-05-01 took 3.5 s and token use was fine, see src/app/main.py:10 "
    )
    text = words * (1_000_000 // len(words))
    assert REDACTOR.text(text) == text


# -- checks --------------------------------------------------------------------------------------------


def test_checksums() -> None:
    assert is_card(made("amex"))
    assert is_jwt(made("jwt"))
    assert not is_jwt(LOOK_ALIKES["json_b64"](Random(1)) + ".a.b")


def test_a_mistyped_token_is_still_taken_for_one() -> None:
    token = made("github")
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    assert REDACTOR.text(wrong) == "[redacted: github token]"


def test_placeholders_and_words_are_no_secrets() -> None:
    assert is_placeholder("YOUR_API_KEY")
    assert is_placeholder("sk-xxxxxxxx")
    assert not is_random("user_preferences_2024_style_guide")
    assert redact_secrets("OPENAI_API_KEY=sk-...") == "OPENAI_API_KEY=sk-..."


def test_importing_compiles_no_pattern() -> None:
    code = (
        "import re, sys\nreal, made = re.compile, []\n"
        "def noted(*args, **more):\n"
        "    made.append(sys._getframe(1).f_code.co_filename)\n"
        "    return real(*args, **more)\n"
        "re.compile = noted\n"
        "from reverie.domain.secrets.redactor import Redactor\n"
        "count = lambda: sum('domain/secrets' in name or 'lazy_regex' in name for name in made)\n"
        "first = count()\n"
        "Redactor().text('password: hunter2')\n"
        "print(first, count() > 0)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["0", "True"]


def test_a_long_key_with_such_a_word_in_it_by_chance_is_a_key() -> None:
    for word in ["fake", "xXxX", "your", "dummy"]:
        letters = "".join(
            Random(7).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=80)
        )
        key = f"sk-ant-api03-{letters[:40]}{word}{letters[40:]}AA"
        assert redact_secrets(f"use {key} now") == "use [redacted: anthropic key] now"
        placeholder = f"sk-ant-api03-{word}-key-goes-here-and-nothing-else-stands-here-xxxx"
        assert redact_secrets(placeholder) == placeholder
