"""Requests for answers in JSON, and what is accepted as one.

A request leaves a model that reasons tokens to do so before its answer. Reasoning before the answer, code fences,
prose around it, wrappers, and the slips of models (comments, single quotes, trailing commas) are accepted. An
answer that breaks off is not: the missing part may have said something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reverie.domain.category import validate_category
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.validation import clean_text
from reverie.llm.protocol import ChatMessage, ModelFailure, ModelReply, ModelRequest, TokenUsage

Schema: TypeAlias = Mapping[str, Any]

_TYPES: Mapping[Any, Any] = {str: "string", int: "integer", str | None: ["string", "null"]}


def build_schema(example: Any) -> Schema:
    """Return the JSON schema of values of the form of an example, with every field required.

    Args:
        example: A type, a tuple of the allowed words, a list with one item, or a mapping of the fields.

    >>> build_schema({"pairs": [{"pair": int, "verdict": ("changed", "both")}]})["required"]
    ['pairs']
    """
    if isinstance(example, Mapping):
        fields = {name: build_schema(each) for name, each in example.items()}
        return {"type": "object", "properties": fields, "required": [*fields]}
    if isinstance(example, list):
        return {"type": "array", "items": build_schema(example[0])}
    if isinstance(example, tuple):
        return {"type": "string", "enum": [*example]}
    return {"type": _TYPES[example]}


# -- questions -----------------------------------------------------------------------------------------

REASONING_TOKENS = 4_000
"""Tokens of an answer that are left for reasoning, which providers count as written."""

VERIFY = "verify"
"""Purpose of the requests that verify what a model has written."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What a pass asks a model for.

    Attributes:
        purpose: The pass.
        prompt: File name of the prompt.
        answer: Form of the answer, as `build_schema` takes it.
        others: Fields of other forms that are accepted too, such as those of the seeds.
        job: Name of the job, for a pass with several.
        tokens: Tokens that the answer may have without reasoning.
        temperature: 0 to 2.
        timeout_s: Seconds that the answer may take.
    """

    purpose: str
    prompt: str
    answer: Mapping[str, Any]
    others: Mapping[str, Any] = field(default_factory=dict)
    job: str = ""
    tokens: int = 2_000
    temperature: float = 0.2
    timeout_s: float = 120.0

    @property
    def forms(self) -> Schema:
        """Schema of all accepted forms."""
        return build_schema({**self.answer, **self.others})

    def build(
        self, prompt: str, places: Mapping[str, str], *, scope: str = "", tokens: int = 0
    ) -> ModelRequest:
        """Return the request for the answer in JSON.

        Args:
            prompt: The prompt. Without any of the places it is the system part, and the data follow in the message.
            places: The data by their places.
            scope: Whose memory it is about.
            tokens: Tokens that the answer may have without reasoning; 0 takes those of the question.
        """
        has_places = any(place[1] in places for place in _PLACE.finditer(prompt))
        data = (f"{place.replace('_', ' ').capitalize()}:\n\n{text}" for place, text in places.items())
        said = ChatMessage(
            role="user", content=fill_places(prompt, places) if has_places else "\n\n".join(data)
        )
        return ModelRequest(
            messages=(said,) if has_places else (ChatMessage(role="system", content=prompt), said),
            purpose=self.purpose,
            scope=scope,
            schema=build_schema(self.answer),
            max_tokens=(tokens or self.tokens) + REASONING_TOKENS,
            temperature=self.temperature,
            timeout_s=self.timeout_s,
        )


_PLACE = defer_regex(r"\{\{(\w+)\}\}")


def fill_places(prompt: str, places: Mapping[str, str]) -> str:
    """Return a prompt with its places, such as `{{records}}`, filled.

    All places are filled in one step, so that a place name within a filled text stays as it is. An unknown place
    stays too.
    """
    return _PLACE.sub(lambda place: places.get(place[1], place[0]), prompt)


# -- answers -------------------------------------------------------------------------------------------


NO_MODEL = ModelFailure(why="no model")
"""The reply where no model is set."""

LATER = ModelFailure(why="it is left for the next dream")
"""The reply to a request that exceeds the limit of a dream."""

LIMIT = "the monthly limit of tokens is reached"
"""Beginning of the reason why a model is not asked any more in a month."""

TIMEOUT = "timeout: "
"""Beginning of the reason why a pass failed whose model did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of a model.

    Attributes:
        fields: Fields of its JSON object, with keys in snake case; empty if there is no usable answer.
        why: Why there is none; empty otherwise. It never quotes the answer.
        usage: Its cost.
        is_unusable: Whether the model answered something that cannot be used.
        is_refused: Whether the model or its server refused the request.
        unknown: Keys of the object that the pass does not read.
    """

    fields: Mapping[str, Any]
    why: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    is_unusable: bool = False
    is_refused: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def is_futile(self) -> bool:
        """Whether the same request is useless soon: the model refused it, was too slow, or its answer is unusable."""
        return self.is_unusable or self.is_refused or self.why.startswith(TIMEOUT)

    @property
    def is_later(self) -> bool:
        """Whether the dream had no request left."""
        return self.why == LATER.why

    @property
    def has_no_model(self) -> bool:
        """Whether no model is set."""
        return self.why == NO_MODEL.why


def read_answer(reply: ModelReply | ModelFailure, schema: Schema) -> Answer:
    """Return the answer in a reply to a request with this schema."""
    if isinstance(reply, ModelFailure):
        return Answer(fields={}, why=reply.why, usage=reply.usage, is_refused=reply.refused)
    try:
        fields = parse_answer(reply, schema)
    except UnusableReply as error:
        return Answer(fields={}, why=str(error), usage=reply.usage, is_unusable=True)
    known = schema.get("properties", {})
    return Answer(
        fields={key: value for key, value in fields.items() if key in known},
        usage=reply.usage,
        unknown=tuple(key for key in fields if key not in known),
    )


_TAG = r"(?:think|thinking|thought|reasoning|reflection|scratchpad)\b[^>]{0,200}>"
_REASONING = defer_regex(
    rf"(?P<start><{_TAG}).*?(?P<end></{_TAG}|\Z)|\A(?:(?!<{_TAG}).)*?</{_TAG}", re.IGNORECASE | re.DOTALL
)
"""Reasoning between its marks; some servers cut the opening mark off."""

_OPENING = defer_regex(
    r"""\{(?>(?:\s|//[^\n]{0,500}\n|/\*.{0,500}?\*/)*)(?:["'}]|\w++\s*+:\s*+[\w"'{\[-])|\[\s*+["'{\[\]]""",
    re.DOTALL,
)
"""Beginning of an object or a list, and not a bracket in prose."""

_BRACKET_OR_STRING = defer_regex(r'[{}\[\]]|"[^"\\]*+(?>(?:\\.[^"\\]*+)*)(?:"|\Z)', re.DOTALL)
_WORD_START = defer_regex(r"(?<=[a-z0-9])(?=[A-Z])|[- ]")
_MAX_CHARACTERS = 2_000_000
_MAX_REPAIRED_CHARACTERS = 100_000
_MAX_DEPTH = 100
_MAX_WRAPPER_DEPTH = 3
_TEXT_KEYS = ("content", "text", "summary", "value", "message", "description", "name")


class UnusableReply(Exception):
    """A reply that cannot be used. The message says why and never quotes it."""


def parse_answer(reply: ModelReply, schema: Schema) -> dict[str, Any]:
    """Return the JSON object in a reply that was asked for with a schema.

    All keys are in snake case: `historyEntry`, `History Entry` and `history-entry` are one. Where the schema has one
    list only, a bare list stands for it. Arguments of a tool call count too.

    Raises:
        UnusableReply: the reply was refused, was cut off, or has no such object.
    """
    if reply.finish == "length":
        raise UnusableReply("the answer was cut off at the limit of its length")
    if reply.finish == "refused":
        raise UnusableReply("the model would not answer")
    properties: Mapping[str, Any] = schema.get("properties", {})
    text = strip_reasoning("\n".join((*(call.arguments for call in reply.tool_calls), reply.text)))
    if not text:
        raise UnusableReply("the answer is empty")
    values = list(_iter_values(text))
    if not values:
        raise UnusableReply("the answer has no JSON")
    found = [each for value in values for each in _iter_candidates(value, properties)]
    if not found:
        raise UnusableReply(f"the answer has none of: {', '.join(properties)}")
    return max(enumerate(found), key=lambda each: (len(properties.keys() & each[1]), each[0]))[1]


def strip_reasoning(text: str) -> str:
    """Return the answer without the reasoning before it.

    Raises:
        UnusableReply: the reasoning never ends, or the text is too long.
    """
    if len(text) > _MAX_CHARACTERS:
        raise UnusableReply(f"the answer has {len(text):,} characters")
    if any(found["start"] and not found["end"] for found in _REASONING.finditer(text)):
        raise UnusableReply("the answer ends within its reasoning")
    return _REASONING.sub("", text).strip()


def _iter_values(text: str) -> Iterator[Any]:
    """Yield the outermost objects and lists in a text.

    A value that begins like JSON and is never closed makes the text unusable. A value that is closed and is not JSON
    after a repair is skipped.
    """
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        at = _find_closing(text, opening.start())
        value = _load(text[opening.start() : at])
        if isinstance(value, dict | list):
            yield _spell_keys(value)


def _find_closing(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, start):
        depth += match[0] in "{[" or -(match[0] in "}]")
        if depth > _MAX_DEPTH:
            raise UnusableReply("the answer is nested too deeply")
        if not depth:
            return match.end()
    raise UnusableReply("the answer breaks off")


def _load(text: str) -> Any:
    """Return the value of a text whose brackets are closed; None if it is not JSON, even after a repair."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        pass
    if len(text) > _MAX_REPAIRED_CHARACTERS:
        raise UnusableReply("the answer is too long to be repaired")
    import json_repair  # here: most answers are valid

    try:
        return json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def _spell_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_WORD_START.sub("_", str(key)).lower(): _spell_keys(each) for key, each in value.items()}
    return [_spell_keys(each) for each in value] if isinstance(value, list) else value


def _iter_candidates(value: Any, wanted: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects with wanted keys that a value is, wraps, or has as a text, such as arguments of a tool call."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = _spell_keys(json.loads(value))
        except (ValueError, RecursionError):
            return
    if isinstance(value, dict) and not wanted.keys().isdisjoint(value):
        yield value
        return
    lists = [name for name, each in wanted.items() if each.get("type") == "array"]
    if isinstance(value, list) and len(lists) == 1 and all(isinstance(each, dict) for each in value):
        is_bare = not depth and all(wanted.keys().isdisjoint(each) for each in value)
        yield from [{lists[0]: value}] if is_bare else []
    if isinstance(value, dict | list) and depth < _MAX_WRAPPER_DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _iter_candidates(each, wanted, depth + 1)


MAX_TAGS = 8
LONGEST_TAG = 60
"""Tags that are taken of one proposal, and characters of one."""

# -- values of an answer ---------------------------------------------------------------------------------


def to_text(value: Any) -> str:
    r"""Return a value as a text. Models put an object or a list where a string should be.

    >>> to_text({"content": "Prefers tea"}), to_text(["Prefers", "tea"]), to_text(None)
    ('Prefers tea', 'Prefers\ntea', '')
    """
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, Mapping):
        named = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        parts = (f"{key}: {to_text(each)}" for key, each in value.items() if to_text(each))
        return "; ".join(parts) if named is None else named.strip()
    if isinstance(value, list):
        return "\n".join(text for text in map(to_text, value) if text)
    return str(value).strip()


def to_texts(value: Any) -> list[str]:
    """Return a value as a list of texts, without empty and repeated ones."""
    if isinstance(value, str):
        value = value.split("\n")
    texts = map(to_text, value if isinstance(value, list) else [value])
    return list(dict.fromkeys(text for text in texts if text))


def to_ids(value: Any) -> list[str]:
    """Return the ids in a value, each once. Models repeat the brackets in which a prompt shows ids.

    >>> to_ids(["[3f2a9c81d04b]", "3f2a9c81d04c, 3f2a9c81d04d"]), to_ids({"id": "[t1]"})
    (['3f2a9c81d04b', '3f2a9c81d04c', '3f2a9c81d04d'], ['t1'])
    """
    if isinstance(value, Mapping):
        value = value.get("id")
    if isinstance(value, list):
        return list(dict.fromkeys(name for each in value for name in to_ids(each)))
    words = to_text(value).replace(",", " ").split()
    return list(dict.fromkeys(name for word in words if (name := word.strip("[]()<>`'\"#."))))


def to_category(value: Any) -> str | None:
    """Return the category in a value; None if it is none."""
    with suppress(InvalidInput):
        return validate_category(to_text(value))
    return None


def to_tags(value: Any) -> tuple[str, ...]:
    """Return the tags in a value: as many as one would search by, and none that is long."""
    tags = (" ".join(clean_text(tag).split()) for tag in to_texts(value))
    return tuple(tag for tag in tags if 0 < len(tag) <= LONGEST_TAG)[:MAX_TAGS]


def to_label(given: Mapping[str, Any]) -> str:
    """Return the label of the record that a proposal names; empty if it names none."""
    return "".join(to_ids(given.get("record") or given.get("id"))[:1]).upper()


def iter_objects(value: Any, *, key: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list. A bare text counts as the object with that `key`."""
    for each in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(each, Mapping):
            yield each
        elif key and isinstance(each, str):
            yield {key: each}


def iter_numbered(value: Any, key: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects in a list that have a number under a key, with the number."""
    for each in iter_objects(value):
        if (number := to_text(each.get(key))).isdecimal():
            yield int(number), each


def describe_unknown_keys(answer: Answer) -> tuple[str, ...]:
    """Return a note that names the keys of an answer that a pass does not read; nothing if there are none."""
    keys = ", ".join(str(key)[:40] for key in answer.unknown)
    return (f"not read in the answer: {keys}",) if keys else ()
