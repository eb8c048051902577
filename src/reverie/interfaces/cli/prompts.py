"""Input of the commands: texts from arguments or standard input, times, and confirmations."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import click

from reverie.domain.errors import InvalidInput
from reverie.domain.text import timestamps

_LARGEST = 32 * 1024 * 1024
"""Bytes of standard input that are read; no text that can be stored is longer."""


def read_text(words: tuple[str, ...], *, name: str) -> str:
    """Return the words of a command line as one text, or standard input for a single `-`.

    Raises:
        InvalidInput: standard input is not UTF-8, or longer than anything that can be stored.
    """
    if words != ("-",):
        return " ".join(words)
    if sys.stdin is None:
        raise InvalidInput(f"{name} is '-', but standard input is closed: pass the text itself")
    data = sys.stdin.buffer.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidInput(f"{name} from standard input is longer than {_LARGEST:,} bytes: shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} from standard input is not UTF-8 text (byte {error.start}): convert it first"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def confirm(question: str, *, instead: str) -> bool:
    """Ask for confirmation; without a terminal, raise an error that names the option to use."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(f"cannot ask for confirmation without a terminal ({question!r}): add {instead}")
    return click.confirm(question, err=True)


class TimeParam(click.ParamType):  # type: ignore[type-arg]  # click before 8.4 has no type parameter
    """Time: an ISO 8601 date or time, or with `back` also an age such as `7d` or a day such as `yesterday`."""

    name = "time"

    def __init__(self, *, back: bool = False) -> None:
        self.back = back

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the time."""
        if isinstance(value, datetime):
            return value
        if self.back and (day := _parse_day(value, ctx)) is not None:
            return day
        if self.back and value[:1].isdigit() and value[-1:].isalpha() and value[-1] not in "zZ":
            return timestamps.utc_now() - timestamps.parse_duration(value, name=_get_option_name(param))
        try:
            return timestamps.parse_time(value, name=_get_option_name(param))
        except InvalidInput as error:
            raise InvalidInput(f"{error}, or as yesterday or 7d" if self.back else str(error)) from None


class ChangeParam(TimeParam):
    """Time, or the number of a change in `history`; eight digits are a date."""

    def __init__(self) -> None:
        super().__init__(back=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number or the time."""
        is_number = isinstance(value, str) and value.isdecimal() and len(value) < 19 and len(value) != 8
        if is_number or isinstance(value, int):
            return int(value)
        return super().convert(value, param, ctx)


def _parse_day(value: str, ctx: click.Context | None) -> datetime | None:
    """Return when the day begins that words mean, where the person's days begin."""
    if value[:1].isdigit() and " " not in value:
        return None
    from reverie.domain.text.dates import parse_relative_day

    now = timestamps.utc_now()
    if ctx is None or ctx.obj is None or parse_relative_day(value, now) is None:
        return None
    return parse_relative_day(value, now, zone=ctx.obj.load_settings().zone)


def _get_option_name(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None else "time"
