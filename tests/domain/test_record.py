"""What a record may hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record, validate_record
from tests.support.contract.factories import make_record

ONE, TWO = make_record(1), make_record(2)


def test_a_headline_names_records_and_not_itself() -> None:
    headline = validate_record(make_record(3, parts=(ONE.id, TWO.id)))
    assert headline.is_headline
    assert not ONE.is_headline
    for parts in (("no id",), (headline.id,), (ONE.id, "")):
        with pytest.raises(InvalidInput, match="part"):
            validate_record(replace(headline, parts=parts))


def test_one_text_is_no_list() -> None:
    for name in ["tags", "references", "parts"]:
        with pytest.raises(InvalidInput, match=f"{name} is text"):
            Record.from_dict(ONE.to_dict() | {name: "python"})
