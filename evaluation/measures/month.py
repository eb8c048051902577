"""`python -m evaluation month`: play a month of conversations, and measure the prompts afterwards.

A file of `evaluation/month` has thirty days of short conversations, the facts and headlines that a good model would
write down, false headlines, and questions (`evaluation/month/README.md` has the format). Each month is played through
the public API with a clock of its own: turns are added at their times, the worker does what is due after each
conversation and every night. Then each question is asked in a new session. This is done without a model, with a
scripted good one, with a scripted hostile one, and without any thinking.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from evaluation.measures.questions import SEALED
from evaluation.measures.scripted_verifier import answer_check
from evaluation.output import check_output_file, print_table, write_json
from reverie.domain.conversation import Role
from reverie.domain.errors import InvalidInput
from reverie.domain.similarity.grounding import extract_content
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.validation import estimate_tokens
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER
from reverie.llm.protocol import ModelReply, ModelRequest, TokenUsage
from reverie.memory import Memory
from reverie.settings import Settings

MODES = ("no thinking", "no model", "good model", "hostile model")

ALIKE = 0.8
"""The share of their words by which two lines of a prompt are near-duplicates."""

_MORNING = timedelta(hours=8)
_BETWEEN_CONVERSATIONS = timedelta(hours=2)
_NIGHT = timedelta(hours=27)
_COLUMNS = (
    "month", "thinking", "answers", "share", "outdated", "tokens", "beside none", "lines", "alike",
    "a conversation", "a night", "tokens read", "written",
)  # fmt: skip
_LINE = re.compile(r"^- \[[0-9a-f]{12}\][^:]*: (.*)$", re.MULTILINE)
_RECORD = re.compile(r"^\d+\. (?:NEW )?\[([0-9a-f]{12})\] \([^\n]*?\): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """One file.

    Attributes:
        name: Its name.
        start: The first day.
        days: The conversations of each day, each a list of turns.
        facts: What a good model writes down.
        headlines: Good headlines over facts.
        hostile: False ones.
        questions: What is asked afterwards.
    """

    name: str
    start: datetime
    days: tuple[tuple[int, tuple[tuple[Mapping[str, str], ...], ...]], ...]
    facts: tuple[Mapping[str, Any], ...]
    headlines: tuple[Mapping[str, Any], ...]
    hostile: tuple[Mapping[str, Any], ...]
    questions: tuple[Mapping[str, Any], ...]


@dataclass(slots=True, kw_only=True)
class MonthFigures:
    """Result of a month with one kind of thinking.

    Attributes:
        answered: Ids of the questions whose answers stand in the prompt.
        outdated: Ids of those whose prompt has an outdated value without the current one.
        tokens: Tokens of each prompt.
        lines: Remembered lines in all prompts.
        alike: Those that say nearly the same as another line of their prompt.
        conversations: How many conversations there were.
        calls: Requests by purpose.
        night_calls: Requests of each day and its night, without those about a conversation.
        usage: Cost of the requests.
    """

    mode: str
    questions: int
    answered: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lines: int = 0
    alike: int = 0
    conversations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    night_calls: list[int] = field(default_factory=list)
    usage: dict[str, TokenUsage] = field(default_factory=dict)

    @property
    def mean_tokens(self) -> float:
        """Mean tokens of a prompt."""
        return sum(self.tokens) / max(1, len(self.tokens))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "mode": self.mode,
            "questions": self.questions,
            "answered": len(self.answered),
            "answered_ids": self.answered,
            "outdated": self.outdated,
            "tokens_per_prompt": self.mean_tokens,
            "lines": self.lines,
            "alike": self.alike,
            "conversations": self.conversations,
            "calls": dict(self.calls),
            "night_calls": self.night_calls,
            "tokens": {
                name: {"read": usage.input_tokens, "written": usage.output_tokens}
                for name, usage in self.usage.items()
            },
        }


def read_months(folder: str | Path, *, sealed: bool = False) -> list[Month]:
    """Read the months of a folder.

    Args:
        folder: Where the JSON files are.
        sealed: Whether to read the files that are kept for final figures, and only those.

    Raises:
        InvalidInput: the folder has no such file, or a file is not of the format.
    """
    files = sorted(Path(folder).expanduser().glob("*.json"))
    files = [file for file in files if file.name.startswith(SEALED) is sealed]
    if not files:
        raise InvalidInput(
            f"{folder} has no months: they are in the repository, not in the package: pass --data FOLDER"
        )
    return [_read_month(file) for file in files]


def _read_month(file: Path) -> Month:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return Month(
            name=data["name"],
            start=datetime.fromisoformat(data["start"][:10]).replace(tzinfo=UTC),
            days=tuple(
                (day["day"], tuple(tuple(each["turns"]) for each in day["conversations"]))
                for day in data["days"]
            ),
            facts=tuple(data["facts"]),
            headlines=tuple(data["headlines"]),
            hostile=tuple(data["hostile"]),
            questions=tuple(data["questions"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file} is not a month: {error!r}") from None


class ScriptedModel:
    """Model that answers for a month as its file says."""

    name = "scripted:month"

    def __init__(self, month: Month, *, is_hostile: bool) -> None:
        self._month = month
        self._is_hostile = is_hostile
        self._facts = {fact["id"]: fact for fact in month.facts}
        self._ended = {fact["ends"] for fact in month.facts if fact["ends"]}
        self._true = {escape_line(headline["text"]) for headline in month.headlines}
        self._true |= {escape_line(fact["content"]) for fact in month.facts}
        self._true |= {
            f"{escape_line(self._facts[fact['ends']]['content'])} -> {escape_line(fact['content'])}"
            for fact in month.facts
            if fact["ends"]
        }
        self.calls: Counter[str] = Counter()
        self.usage: dict[str, TokenUsage] = {}

    def answer(self, request: ModelRequest, *, on_text: object = None) -> ModelReply:
        """Answer a request."""
        del on_text
        prompt = request.messages[0].content
        text = self._answer(request.purpose, prompt)
        self.calls[request.purpose] += 1
        read = sum(estimate_tokens(message.content) for message in request.messages)
        usage = TokenUsage(requests=1, input_tokens=read, output_tokens=estimate_tokens(text))
        self.usage[request.purpose] = self.usage.get(request.purpose, TokenUsage()) + usage
        return ModelReply(text=text, model=self.name, usage=usage)

    def _answer(self, purpose: str, prompt: str) -> str:
        if purpose == "remember":
            return json.dumps({"records": self._find_facts(prompt)}, ensure_ascii=False)
        if purpose == "infer":
            return '{"preferences": []}'
        if purpose == "verify":
            return answer_check(prompt, lambda claim: self._is_hostile or claim in self._true)
        if purpose == "merge" and '{"merge"' in prompt:
            return json.dumps({"merge": self._find_headlines(prompt)}, ensure_ascii=False)
        return '{"headlines": [], "pairs": []}'

    def _find_facts(self, prompt: str) -> list[dict[str, Any]]:
        """Return what is worth keeping of the conversation that a request shows."""
        shown = prompt.rpartition("Conversation of ")[2]
        found = []
        for fact in self._month.facts:
            turns = _get_conversation(self._month, fact["day"], fact["conversation"])
            if escape_line(turns[0]["text"])[:200] in shown and escape_line(turns[-1]["text"])[:200] in shown:
                labels = [f"t{at + 1}" for at in fact["turns"]]
                found.append(
                    {"content": fact["content"], "kind": fact["kind"], "category": "", "turns": labels}
                )
        return found

    def _find_headlines(self, prompt: str) -> list[dict[str, Any]]:
        """Return headlines over the records that a request shows."""
        ids = {content: name for name, content in _RECORD.findall(prompt)}
        merges = []
        for headline in self._month.hostile if self._is_hostile else self._month.headlines:
            parts = [
                escape_line(self._facts[name]["content"])
                for name in headline["parts"]
                if name not in self._ended
            ]
            if len(parts) > 1 and all(part in ids for part in parts):
                merges.append({"sources": [ids[part] for part in parts], "content": headline["text"]})
        return merges


def _get_conversation(month: Month, day: int, at: int) -> Sequence[Mapping[str, str]]:
    return next(conversations for number, conversations in month.days if number == day)[at]


def play(month: Month, mode: str, *, embedder: str = NO_EMBEDDER) -> MonthFigures:
    """Play a month with one kind of thinking, and ask its questions.

    Args:
        month: The month.
        mode: One of `MODES`.
        embedder: The embedder of the memory, as in the setting; all texts have their vectors when questions are asked.
    """
    moment = [month.start]
    thinks = mode != "no thinking"
    model = ScriptedModel(month, is_hostile=mode == "hostile model") if mode.endswith("model") else None
    settings = Settings(embedder=embedder)
    if not thinks:
        settings = replace(settings, learn=False, remember=False, dream_interval=None)
    given = model if mode != "no model" else None
    figures = MonthFigures(mode=mode, questions=len(month.questions))
    with Memory.open(":memory:", settings=settings, clock=lambda: moment[0], model=given) as memory:
        for day, conversations in month.days:
            today = month.start + timedelta(days=day - 1)
            for number, turns in enumerate(conversations):
                moment[0] = max(moment[0], today + _MORNING + number * _BETWEEN_CONVERSATIONS)
                session = memory.session(f"chat:{day}-{number}")
                for turn in turns:
                    moment[0] += timedelta(minutes=1)
                    session.add(cast("Role", turn["role"]), turn["text"])
                figures.conversations += 1
                moment[0] += settings.idle + timedelta(minutes=1)
                if thinks:
                    memory.dreams.run_due()
            moment[0] = max(moment[0], today + _NIGHT)
            if thinks:
                memory.dreams.run_due()
            figures.night_calls.append(_count_night_calls(given) - sum(figures.night_calls))
        moment[0] += _MORNING
        embed_all(memory)
        for number, question in enumerate(month.questions):
            text = memory.session(f"ask:{number}").context(question["question"], record_shown=False).text
            _judge_prompt(figures, question, text)
    if given is not None:
        figures.calls, figures.usage = given.calls, given.usage
    return figures


def _count_night_calls(model: ScriptedModel | None) -> int:
    return 0 if model is None else model.calls.total() - model.calls["remember"]


def _judge_prompt(figures: MonthFigures, question: Mapping[str, Any], text: str) -> None:
    is_answered = all(_stands(answer, text) for answer in question["answer"])
    if is_answered:
        figures.answered.append(question["id"])
    elif any(_stands(value, text) for value in question["not"]):
        figures.outdated.append(question["id"])
    figures.tokens.append(estimate_tokens(text))
    words = [extract_content(line) for line in _LINE.findall(text)]
    figures.lines += len(words)
    figures.alike += sum(
        any(len(one & other) >= ALIKE * max(len(one), len(other), 1) for other in words[:at])
        for at, one in enumerate(words)
    )


def _stands(value: str, text: str) -> bool:
    """Whether a value stands in a text, and not within another word or number."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\d)", text, re.IGNORECASE) is not None


def run(
    folder: str | Path,
    *,
    sealed: bool = False,
    embedder: str = NO_EMBEDDER,
    out: str | Path | None = None,
    show_errors: bool = False,
) -> int:
    """Play the months of a folder, print the figures and, on request, write them as JSON.

    Args:
        folder: Where the JSON files are.
        sealed: Play the months that are kept for final figures, in place of the others.
        embedder: The embedder of the memories, as in the setting.
        out: The JSON file to write; None for none.
        show_errors: Also list the questions whose answers do not stand in the prompt.

    Returns:
        The exit code, 0.

    Raises:
        InvalidInput: there are no months, or `out` cannot be written.
    """
    file = check_output_file(out)
    results: dict[str, list[MonthFigures]] = {}
    for month in read_months(folder, sealed=sealed):
        results[month.name] = [play(month, mode, embedder=embedder) for mode in MODES]
    rows = [_format_row(name, each, figures[0]) for name, figures in results.items() for each in figures]
    remarks = [
        f"missed, {name}, {each.mode}: {' '.join(_list_missed(each, month))}"
        for month in (read_months(folder, sealed=sealed) if show_errors else ())
        for name, figures in results.items()
        for each in figures
        if name == month.name
    ]
    print_table(_COLUMNS, rows, remarks)
    write_json(file, {name: [each.to_dict() for each in figures] for name, figures in results.items()})
    return 0


def _list_missed(figures: MonthFigures, month: Month) -> list[str]:
    return [question["id"] for question in month.questions if question["id"] not in figures.answered]


def _format_row(name: str, figures: MonthFigures, beside: MonthFigures) -> tuple[str, ...]:
    nights = figures.night_calls
    read = sum(usage.input_tokens for usage in figures.usage.values())
    written = sum(usage.output_tokens for usage in figures.usage.values())
    return (
        name,
        figures.mode,
        f"{len(figures.answered)}/{figures.questions}",
        f"{len(figures.answered) / max(1, figures.questions):.3f}",
        str(len(figures.outdated)),
        f"{figures.mean_tokens:,.0f}",
        f"{figures.mean_tokens / max(1.0, beside.mean_tokens) - 1:+.0%}",
        f"{figures.lines / max(1, figures.questions):.1f}",
        f"{figures.alike / max(1, figures.lines):.1%}",
        f"{figures.calls['remember'] / max(1, figures.conversations):.2f}",
        f"{sum(nights) / max(1, len(nights)):.2f} (most {max(nights, default=0)})",
        f"{read:,}",
        f"{written:,}",
    )
