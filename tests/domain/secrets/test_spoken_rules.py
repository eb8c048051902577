"""Secrets that people tell in a sentence, and what only looks like one."""

from __future__ import annotations

import pytest

from reverie.domain.secrets.redactor import Redactor

WORDS = "pepper lunar ivory noodle umbrella window velvet walnut glide orbit magnet quantum"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
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
    ],
)
def test_a_secret_in_a_sentence_is_redacted(text: str, secret: str) -> None:
    redacted = Redactor().text(text)
    assert secret not in redacted
    assert "[redacted: " in redacted


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert Redactor().text(text) == text
