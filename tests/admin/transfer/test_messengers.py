"""Exports of messengers become conversations with their senders, and nobody's word becomes the owner's."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reverie import InvalidInput, Memory
from reverie.admin.transfer.formats.detection import detect_format
from tests.admin.transfer import samples


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:") as opened:
        yield opened
        assert opened.admin.check() == []


def said(memory: Memory, session: str) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.content) for turn in memory.turns(session)]


class TestWhatsApp:
    def test_messages_have_their_sender_time_and_all_their_lines(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        report = memory.admin.import_from(samples.whatsapp(tmp_path))
        assert (report.form, report.sessions, report.turns) == ("whatsapp", 1, 4)
        assert said(memory, "whatsapp:Ines") == [
            ("Ines", "The ferry leaves at nine."),
            ("Tom Okafor", "ok\nsee you: at the pier"),
            ("Tom Okafor", "ok"),
            ("Ines", "<Media omitted>"),
        ]
        times = [turn.at for turn in memory.turns("whatsapp:Ines")]
        assert (times[0], times[3]) == (
            datetime(2023, 12, 31, 22, 15, tzinfo=UTC),
            datetime(2024, 1, 1, 8, 2, tzinfo=UTC),
        )
        assert samples.whys(report) == {"unsupported": 1}

    @pytest.mark.parametrize(
        ("line", "at"),
        [
            ("[13.02.24, 22:15:03] Ines: Hi", (2024, 2, 13, 22, 15, 3)),
            ("\u200e[2/13/24, 10:15:03\u202fPM] Ines: \u200eHi", (2024, 2, 13, 22, 15, 3)),
            ("13/2/2024, 12:05 a. m. - Ines: Hi", (2024, 2, 13, 0, 5)),
            ("2/5/24, 7:05 PM - Ines: Hi", (2024, 2, 5, 19, 5)),
            ("5/2/24, 7:05 p. m. - Ines: Hi", (2024, 2, 5, 19, 5)),
            ("05/02/24, 7:05\u202fpm - Ines: Hi", (2024, 2, 5, 19, 5)),
            ("[05.02.24, 7:05:00 PM] Ines: Hi", (2024, 2, 5, 19, 5)),
            ("2024/02/13, 22:15 - Ines: Hi", (2024, 2, 13, 22, 15)),
            ("13-02-2024 22:15 - Ines: Hi", (2024, 2, 13, 22, 15)),
        ],
    )
    def test_times_are_read_as_phones_write_them(
        self, memory: Memory, tmp_path: Path, line: str, at: tuple[int, ...]
    ) -> None:
        file = tmp_path / "chat.txt"
        file.write_text(f"{line}\r\n", encoding="utf-8")
        assert memory.admin.import_from(file).form == "whatsapp"
        (turn,) = memory.turns("whatsapp:chat")
        assert (turn.content, turn.at) == ("Hi", datetime(*at, tzinfo=UTC))  # type: ignore[arg-type,misc]

    def test_the_order_of_day_and_month_is_the_one_in_which_time_goes_forward(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        file = tmp_path / "chat.txt"
        file.write_text("3/1/24, 10:00 - A: x\n3/2/24, 10:00 - A: y\n4/1/24, 10:00 - A: z\n")
        memory.admin.import_from(file)
        assert [turn.at.month for turn in memory.turns("whatsapp:chat")] == [3, 3, 4]

    def test_an_archive_of_a_phone_is_named_after_its_chat(self, memory: Memory, tmp_path: Path) -> None:
        place = tmp_path / "WhatsApp Chat - Ines.zip"
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("_chat.txt", "[13.02.24, 22:15:03] Ines: Hi\n")
            archive.writestr("00001-PHOTO.jpg", "jpg")
        report = memory.admin.import_from(place)
        assert said(memory, "whatsapp:Ines") == [("Ines", "Hi")]
        assert samples.told(report, "unsupported") == [("file", "WhatsApp Chat - Ines.zip/00001-PHOTO.jpg")]

    def test_an_export_that_grew_gives_what_is_new(self, memory: Memory, tmp_path: Path) -> None:
        file = samples.whatsapp(tmp_path)
        memory.admin.import_from(file)
        file.write_text(samples.WHATSAPP + "02/01/2024, 09:00 - Ines: Landed\n", encoding="utf-8")
        assert memory.admin.import_from(file).turns == 1


class TestSlack:
    def test_a_channel_is_a_session_and_people_have_their_names(self, memory: Memory, tmp_path: Path) -> None:
        report = memory.admin.import_from(samples.slack(tmp_path))
        assert (report.form, report.sessions, report.turns) == ("slack", 1, 3)
        assert said(memory, "slack:launch") == [
            ("Ines", "@Ines & @here: the plan (http://a.b)"),
            ("Tom", "[plan.pdf]"),
            ("deploys", "v7 is http://c.d"),
        ]
        assert memory.turns("slack:launch")[0].at == datetime(2024, 3, 1, 9, 23, 20, 200, tzinfo=UTC)
        assert ("turn", "slack.zip/launch/2024-03-01.json") in samples.told(report, "unsupported")

    def test_an_unpacked_export_is_read_too(self, memory: Memory, tmp_path: Path) -> None:
        place = tmp_path / "export"
        with zipfile.ZipFile(samples.slack(tmp_path)) as archive:
            archive.extractall(place)
        assert memory.admin.import_from(place).turns == 3
        assert memory.admin.import_from(samples.slack(tmp_path)).turns == 0


class TestTelegram:
    def test_a_chat_is_a_session_with_plain_text(self, memory: Memory, tmp_path: Path) -> None:
        report = memory.admin.import_from(samples.telegram(tmp_path))
        assert (report.form, report.sessions, report.turns) == ("telegram", 1, 2)
        assert said(memory, "telegram:77") == [("Ines", "See https://a.b!"), ("Me", "[photo]\nI will")]
        assert memory.turns("telegram:77")[0].at == datetime(2024, 3, 1, 9, tzinfo=UTC)
        assert memory.sessions()[0].state.metadata["title"] == "Ines"

    def test_in_an_export_of_everything_the_owner_is_known(self, memory: Memory, tmp_path: Path) -> None:
        file = tmp_path / "result.json"
        file.write_text(json.dumps(samples.TELEGRAM_ALL), encoding="utf-8")
        assert memory.admin.import_from(file).turns == 2
        assert [turn.origin for turn in memory.turns("telegram:77")] == ["import", "owner"]


@pytest.mark.parametrize("form", ["whatsapp", "slack", "telegram"])
def test_a_message_is_the_owners_word_only_if_the_owner_says_so(
    form: str, memory: Memory, tmp_path: Path
) -> None:
    source = samples.SOURCES[form](tmp_path)
    memory.admin.import_from(source)
    (session,) = memory.sessions()
    assert {turn.origin for turn in memory.turns(session.state.id)} == {"import"}
    with Memory.open(":memory:") as trusting:
        trusting.admin.import_from(source, origin="owner")
        assert {turn.origin for turn in trusting.turns(session.state.id)} == {"owner"}


class TestDocuments:
    def test_a_long_text_is_cut_into_passages_that_search_finds(self, memory: Memory, tmp_path: Path) -> None:
        file = tmp_path / "handbook.txt"
        file.write_text(
            "\n\n".join(f"Part {n}. The valve {n} opens at {n} bar, never before." for n in range(3_000))
        )
        assert len(file.read_text()) > 100_000
        report = memory.admin.import_from(file)
        assert report.form == "document"
        assert report.records > 100
        assert report.skipped == ()
        records = memory.list(limit=None)
        assert "".join(sorted(each.content for each in records)).count("valve") == 3_000
        assert max(len(each.content) for each in records) <= 800
        assert "The valve 2123 opens" in memory.search("valve 2123")[0].content
        assert memory.admin.import_from(file).records == 0

    def test_a_text_without_any_place_to_cut_is_cut_all_the_same(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        file = tmp_path / "letters.txt"
        text = "".join(chr(0x4E00 + number % 19_997) for number in range(110_000))
        file.write_text(text, encoding="utf-8")
        assert memory.admin.import_from(file).skipped == ()
        assert sum(len(each.content) for each in memory.list(limit=None)) == len(text)

    def test_json_that_nothing_knows_is_no_document(self, tmp_path: Path) -> None:
        file = tmp_path / "data.txt"
        file.write_text('{"a": 1}')
        with pytest.raises(ValueError, match="cannot tell what it is"):
            detect_format(file)


@pytest.mark.parametrize("form", ["whatsapp", "document"])
def test_a_text_that_is_not_utf_8_is_named(memory: Memory, tmp_path: Path, form: str) -> None:
    talk = tmp_path / "talk.txt"
    talk.write_bytes("13.02.24, 22:15 - Inês: Olá\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"^talk\.txt: not UTF-8 text \(byte 20\): save it as UTF-8"):
        memory.admin.import_from(talk, form)
