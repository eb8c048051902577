"""What is taken for a secret and what is not, what takes its place, and how long that takes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from evaluation.measures.synthetic_secrets import LOOK_ALIKES, SECRETS
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.secrets.named import TRIGGERS
from reverie.domain.secrets.redactor import Redactor, redact_secrets
from reverie.domain.secrets.rules import (
    is_placeholder,
    is_random,
    load_table,
)
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


def test_a_bare_password_is_found_again_where_a_word_has_told_it() -> None:
    text = "password: hunter2x\nI typed hunter2x twice and hunter2x failed"
    assert "hunter2x" not in REDACTOR.text(text)


CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
"""Texts whose secrets, one or several, are replaced and nothing else; texts with a secret; texts without any."""


def test_secrets_beside_a_word_in_tables_commands_and_sentences_are_found() -> None:
    for text, secrets in CASES["restored"]:
        clean = REDACTOR.text(text)
        assert not [secret for secret in secrets if secret in clean], text
        pieces = iter(secrets)
        assert re.sub(r"\[redacted: \w+\]", lambda _, pieces=pieces: next(pieces), clean) == text
    for text, secret in CASES["redacted"]:
        clean = REDACTOR.text(text)
        assert secret not in clean, text
        assert "[redacted: " in clean


def test_a_text_that_only_speaks_of_secrets_stays() -> None:
    for text in CASES["kept"]:
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
    off = Redactor(enabled=False)
    assert off.text(made("openai")) == made("openai")
    assert off.detect_secret_name(made("openai")) is None
    assert off.redact_mapping({"password": "hunter2"}) == {"password": "hunter2"}


# -- laws ----------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(CASES["fragments"]),
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


@settings(max_examples=examples(60))
@given(st.text(alphabet="İıſK\u0130aA:= pwdPASSWORDtoken1!\n", max_size=80))
def test_letters_whose_small_form_is_longer_shift_nothing(text: str) -> None:
    padded = f"{text} {made('github')} {text}"
    assert made("github") not in REDACTOR.text(padded)
    assert (
        REDACTOR.text("\u0130\u0130 password: Tr0ub4dor&3") == "\u0130\u0130 password: [redacted: password]"
    )


def find_slow(pieces: Iterable[str]) -> list[str]:
    """Return the pieces that are slow in three measurements in a row: a busy machine disturbs one."""
    return [piece for piece in pieces if all(grows_faster(piece) for _ in range(3))]


def grows_faster(piece: str) -> bool:
    """Whether repetitions of a piece take more than eight times as long in a text of four times the length."""
    cost = measure_cost(piece, 2_000)
    return cost > 0.04 and measure_cost(piece, 8_000) > 8 * cost


def test_hostile_texts_take_time_linear_in_their_length() -> None:
    assert not find_slow(CASES["hostile"])


@pytest.mark.slow
def test_every_rule_takes_time_linear_in_the_text() -> None:
    words = {trigger for part in load_table()[0].values() for rule in part for trigger in rule.triggers}
    names = (words | set(TRIGGERS)) - {""}
    assert not find_slow(f"{name}{separator}" for name in sorted(names) for separator in ("", " ", "="))


def measure_cost(piece: str, length: int) -> float:
    """Seconds of processor time that repetitions of a piece take."""
    text = piece * (length // len(piece))
    before = time.process_time()
    Redactor().find(text)
    return time.process_time() - before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_long_hostile_texts_are_redacted() -> None:
    for piece in CASES["hostile"]:
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


def test_placeholders_and_words_are_no_secrets() -> None:
    assert is_placeholder("YOUR_API_KEY")
    assert is_placeholder("sk-xxxxxxxx")
    assert not is_random("user_preferences_2024_style_guide")
    assert redact_secrets("OPENAI_API_KEY=sk-...") == "OPENAI_API_KEY=sk-..."


def test_a_long_key_with_such_a_word_in_it_by_chance_is_a_key() -> None:
    for word in ["fake", "xXxX", "your", "dummy"]:
        letters = "".join(
            Random(7).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=80)
        )
        key = f"sk-ant-api03-{letters[:40]}{word}{letters[40:]}AA"
        assert redact_secrets(f"use {key} now") == "use [redacted: anthropic key] now"
        placeholder = f"sk-ant-api03-{word}-key-goes-here-and-nothing-else-stands-here-xxxx"
        assert redact_secrets(placeholder) == placeholder
