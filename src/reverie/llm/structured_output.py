"""Ask for an answer of a certain form, on servers that differ in what they understand.

A server is asked to hold the answer to a JSON schema. If it refuses that, it is asked for JSON, with the
schema in words; then in words alone. What a server refused is not tried on it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Literal, TypeVar

from reverie.domain.errors import ModelRefused
from reverie.llm.messages import ChatMessage

Form = Literal["schema", "json", "words"]
T = TypeVar("T")


class FormatRejected(Exception):
    """The server refused the request as a whole; a plainer one may work."""


class FormatFallback:
    """Forms that a server has not refused yet, the strictest first."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms = tuple(forms)

    def ask(self, request: Callable[[Form], T]) -> T:
        """Return the result of `request` in the strictest form that the server understands.

        A plainer form is remembered only if it succeeds: a request that is refused in every form was wrong
        for another reason, which the first refusal states.

        Raises:
            ModelRefused: it was refused in every form.
        """
        refusal: FormatRejected | None = None
        forms = self._forms  # other threads may replace them meanwhile
        for number, form in enumerate(forms):
            try:
                answer = request(form)
            except FormatRejected as error:
                refusal = refusal or error
                continue
            self._forms = forms[number:]
            return answer
        raise ModelRefused(str(refusal)) from refusal


def append_schema(messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the messages with the schema in words at the end of the user's last one."""
    text = files("reverie.llm").joinpath("json-answer.md").read_text(encoding="utf-8")
    instruction = text.replace("{schema}", json.dumps(dict(schema), indent=2, ensure_ascii=False)).strip()
    last = max((n for n, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        return (*messages, ChatMessage(role="user", content=instruction))
    asked = replace(messages[last], content=f"{messages[last].content}\n\n{instruction}")
    return (*messages[:last], asked, *messages[last + 1 :])
