"""`python -m evaluation month`: play a month of conversations, and measure the prompts afterwards.

A file of `evaluation/month` has thirty days of short conversations, the facts and headlines that a good model would
write down, false headlines, and questions (`evaluation/month/README.md` has the format). Each month is played through
the public API with a clock of its own: turns are added at their times, the worker does what is due after each
conversation and every night. Then each question is asked in a new session. This is done without any thinking, without a
model, and with scripted ones: good, hostile ones whose checks are honest or not, and ones that never answer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from evaluation.measures.questions import SEALED
from evaluation.measures.scripted_verifier import answer_claims
from evaluation.output import check_output_file, print_table, write_json
from reverie.consolidation.passes.verify import DROPPED
from reverie.domain.conversation import Role
from reverie.domain.errors import InvalidInput, ModelRefused, ModelTimeout
from reverie.domain.record import Record
from reverie.domain.similarity.grounding import extract_content
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.validation import estimate_tokens
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER
from reverie.llm.protocol import ModelReply, ModelRequest, TokenUsage
from reverie.memory import Memory
from reverie.settings import Settings

MODES: Mapping[str, Mapping[str, str] | None] = {
    "no thinking": None,
    "no model": None,
    "good model": {},
    "hostile, honest check": {"writer": "hostile"},
    "hostile, says yes": {"writer": "hostile", "verifier": "yes"},
    "hostile, absurd only": {"writer": "hostile", "verifier": "absurd"},
    "refuses": {"failing": "refuses"},
    "cut off": {"failing": "cut off"},
    "slow": {"failing": "slow"},
}
"""Kinds of thinking, with the arguments of the scripted model; None for none."""

ALIKE = 0.8
"""The share of their words by which two lines of a prompt are near-duplicates."""

_MORNING = timedelta(hours=8)
_BETWEEN_CONVERSATIONS = timedelta(hours=2)
_NIGHT = timedelta(hours=27)
_COLUMNS = (
    "month", "thinking", "answers", "share", "outdated", "replaced", "wrongly", "false records", "in prompts", "junk",
    "tokens", "changing", "lines", "alike", "a conversation", "a night", "tokens read", "written",
)  # fmt: skip
_SESSION = re.compile(r"session:chat:(\d+)-(\d+)")
_LINE = re.compile(r"^- \[[0-9a-f]{12}\][^:]*: (.*)$", re.MULTILINE)
_RECORD = re.compile(r"^\[(K\d+)\] (?:NEW )?\([^\n]*?\): (.*)$", re.MULTILINE)
_KEPT = re.compile(r"^\[(R\d+)\] \(\d{4}-\d\d-\d\d\) (.*)$", re.MULTILINE)
_LABELLED = re.compile(r"^\[(K\d+)\] \(\d{4}-\d\d-\d\d\) (.*)$", re.MULTILINE)


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
        changing: Tokens of the part of each that changes with the message.
        records: Live records.
        false_records: Those that are false.
        updates: Facts that replace one of which records tell.
        replaced: Those of them after which all such records are ended, or marked as perhaps outdated.
        wrongly_ended: Records that are ended and tell of no fact that another one replaces.
        junk: Those that share fewer than two words with every fact of their conversation. Of 113 sentences that
            somebody judged, this agrees with 94.
        false_lines: Lines with a false statement in all prompts.
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
    changing: list[int] = field(default_factory=list)
    records: int = 0
    false_records: list[str] = field(default_factory=list)
    updates: int = 0
    replaced: int = 0
    wrongly_ended: list[str] = field(default_factory=list)
    junk: int = 0
    false_lines: int = 0
    lines: int = 0
    alike: int = 0
    conversations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    night_calls: list[int] = field(default_factory=list)
    usage: dict[str, TokenUsage] = field(default_factory=dict)

    @property
    def mean_tokens(self) -> float:
        """Mean tokens of a prompt."""
        return fmean(self.tokens or [0])

    @property
    def mean_changing(self) -> float:
        """Mean tokens of the part of a prompt that changes with the message."""
        return fmean(self.changing or [0])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "mode": self.mode,
            "questions": self.questions,
            "answered": len(self.answered),
            "answered_ids": self.answered,
            "outdated": self.outdated,
            "tokens_per_prompt": self.mean_tokens,
            "changing_per_prompt": self.mean_changing,
            "records": self.records,
            "false_records": self.false_records,
            "updates": self.updates,
            "replaced": self.replaced,
            "wrongly_ended": self.wrongly_ended,
            "junk": self.junk,
            "false_lines": self.false_lines,
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
    """Model that answers for a month as its file says.

    Args:
        month: The month.
        writer: `good`, or `hostile` to write false facts and headlines too.
        verifier: `honest`, `yes` to support everything, or `absurd` to deny only what has no word of its evidence.
        failing: `refuses`, `cut off` or `slow`, for a model that never gives a usable answer; empty for none.
    """

    name = "scripted:month"

    def __init__(
        self, month: Month, *, writer: str = "good", verifier: str = "honest", failing: str = ""
    ) -> None:
        self._month = month
        self._writer = writer
        self._verifier = verifier
        self._failing = failing
        self._facts = {fact["id"]: fact for fact in month.facts}
        self._ended = {fact["ends"] for fact in month.facts if fact["ends"]}
        self._true = {escape_line(headline["text"]) for headline in month.headlines}
        self._true |= {escape_line(fact["content"]) for fact in month.facts}
        self._enders = {
            f"No longer true: {self._facts[fact['ends']]['content']}": fact["content"]
            for fact in month.facts
            if fact["ends"]
        }
        self.false = {
            falsified
            for fact in month.facts
            if (falsified := falsify(month, fact)) and falsified not in self._true
        }
        self.false |= {escape_line(headline["text"]) for headline in month.hostile}
        self.calls: Counter[str] = Counter()
        self.usage: dict[str, TokenUsage] = {}

    def answer(self, request: ModelRequest, *, on_text: object = None) -> ModelReply:
        """Answer a request."""
        del on_text
        self.calls[request.purpose] += 1
        if self._failing == "refuses":
            raise ModelRefused("scripted refusal")
        if self._failing == "slow":
            raise ModelTimeout("scripted timeout")
        prompt = request.messages[-1].content
        text = self._answer(request.purpose, prompt)
        read = sum(estimate_tokens(message.content) for message in request.messages)
        usage = TokenUsage(requests=1, input_tokens=read, output_tokens=estimate_tokens(text))
        self.usage[request.purpose] = self.usage.get(request.purpose, TokenUsage()) + usage
        is_cut = self._failing == "cut off"
        text = text[: len(text) // 2] if is_cut else text
        return ModelReply(text=text, model=self.name, usage=usage, finish="length" if is_cut else "stop")

    def _answer(self, purpose: str, prompt: str) -> str:
        if purpose == "read":
            return json.dumps(self._read(prompt), ensure_ascii=False)
        if purpose == "verify":
            return answer_claims(prompt, self._is_supported)
        if purpose == "tidy" and '"headlines"' in prompt:
            return json.dumps({"headlines": self._find_headlines(prompt)}, ensure_ascii=False)
        empty = {"preferences": "preferences", "tidy": "file" if '"file"' in prompt else "lessons"}
        return json.dumps({empty.get(purpose, "records"): []})

    def _is_supported(self, claim: str, evidence: str) -> bool:
        if self._verifier == "yes":
            return True
        if self._verifier == "absurd":
            return not extract_content(claim).isdisjoint(extract_content(evidence))
        if claim in self._enders:
            return self._enders[claim] in evidence
        if claim.startswith(DROPPED):
            return self._is_junk(claim.removeprefix(DROPPED))
        return claim in self._true or claim in evidence

    def _is_junk(self, text: str) -> bool:
        return _says_nothing(text, self._month.facts)

    def _read(self, prompt: str) -> dict[str, Any]:
        """Return what is worth keeping of the conversation that a request shows."""
        shown = prompt.rpartition("Conversation of ")[2]
        known = {content: label for label, content in _LABELLED.findall(prompt)}
        answer: dict[str, Any] = {"history": "", "add": [], "change": [], "end": [], "drop": []}
        for fact in self._month.facts:
            turns = _get_conversation(self._month, fact["day"], fact["conversation"])
            if escape_line(turns[0]["text"])[:200] in shown and escape_line(turns[-1]["text"])[:200] in shown:
                labels = [f"T{at + 1}" for at in fact["turns"]]
                row = {
                    "content": fact["content"],
                    "kind": fact["kind"],
                    "category": "people",
                    "turns": labels,
                }
                old = escape_line(self._facts[fact["ends"]]["content"])[:200] if fact["ends"] else ""
                if old in known:
                    answer["change"].append({"record": known[old], **row})
                else:
                    answer["add"].append(row)
                if self._writer == "hostile" and (false := falsify(self._month, fact)):
                    answer["add"].append({**row, "content": false})
        for label, content in _KEPT.findall(prompt.rpartition("Kept automatically:")[2]):
            if self._is_junk(content):
                answer["drop"].append({"record": label, "why": "not lasting"})
        return answer

    def _find_headlines(self, prompt: str) -> list[dict[str, Any]]:
        """Return headlines over the records that a request shows."""
        labels = {content: label for label, content in _RECORD.findall(prompt)}
        merges = []
        for headline in self._month.hostile if self._writer == "hostile" else self._month.headlines:
            parts = [
                escape_line(self._facts[name]["content"])
                for name in headline["parts"]
                if name not in self._ended
            ]
            if len(parts) > 1 and all(part in labels for part in parts):
                merges.append({"records": [labels[part] for part in parts], "content": headline["text"]})
        return merges


_WORD = re.compile(r"(?<![\w])[^\W\d_a-zß-öø-ÿ][^\W\d_]{2,}")
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?![\w.,:]\d)")


def falsify(month: Month, fact: Mapping[str, Any]) -> str:
    """Return a false variant of a fact with values of its own conversation; empty if there is none.

    A number is exchanged for another one of the cited turns, else a name for another one that they have.
    """
    turns = _get_conversation(month, fact["day"], fact["conversation"])
    cited = " ".join(turns[at]["text"] for at in fact["turns"])
    for pattern in (_NUMBER, _WORD):
        own = [found for found in pattern.finditer(fact["content"]) if found[0] in cited]
        others = [
            value for value in pattern.findall(cited) if value not in fact["content"] and len(value) > 1
        ]
        if own and others:
            found = own[-1]
            return f"{fact['content'][: found.start()]}{others[0]}{fact['content'][found.end() :]}"
    return ""


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
    arguments = MODES[mode]
    given = None if arguments is None else ScriptedModel(month, **arguments)
    settings = Settings(embedder=embedder)
    if not thinks:
        settings = replace(settings, learn=False, remember=False, dream_interval=None)
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
        _judge_records(figures, month, memory.list(limit=None), given)
        for number, question in enumerate(month.questions):
            pack = memory.session(f"ask:{number}").context(question["question"], record_shown=False)
            _judge_prompt(figures, question, pack.text)
            figures.changing.append(estimate_tokens(pack.changing_text))
            figures.false_lines += sum(
                pack.text.count(each) for each in (given.false if given is not None else ())
            )
    if given is not None:
        figures.calls, figures.usage = given.calls, given.usage
    return figures


def _count_night_calls(model: ScriptedModel | None) -> int:
    return 0 if model is None else model.calls.total() - model.calls["read"]


def _judge_records(
    figures: MonthFigures, month: Month, records: Sequence[Record], model: ScriptedModel | None
) -> None:
    """Count the live records that are false, and those that say nothing of what is worth keeping."""
    figures.records = len(records)
    figures.false_records = (
        [] if model is None else [each.content for each in records if each.content in model.false]
    )
    olds = [fact for fact in month.facts if any(fact["id"] == each["ends"] for each in month.facts)]
    for old in olds:
        tellers = [record for record in records if _tells(record, old)]
        figures.updates += bool(tellers)
        figures.replaced += bool(tellers) and all(
            each.replaced_by or each.perhaps_replaced_by for each in tellers
        )
    figures.wrongly_ended = [
        each.content for each in records if each.replaced_by and not any(_tells(each, old) for old in olds)
    ]
    for record in records:
        where = _SESSION.fullmatch(record.source)
        facts = [
            fact
            for fact in month.facts
            if where is None or where.groups() == (str(fact["day"]), str(fact["conversation"]))
        ]
        figures.junk += _says_nothing(record.content, facts)


def _tells(record: Record, fact: Mapping[str, Any]) -> bool:
    """Return whether a record has a fact, or was said in its conversation with half of its words."""
    own = extract_content(fact["content"])
    is_said = record.source == f"session:chat:{fact['day']}-{fact['conversation']}"
    return record.content == fact["content"] or (
        is_said and 2 * len(own & extract_content(record.content)) >= len(own)
    )


def _says_nothing(text: str, facts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a text shares fewer than two words with each of these facts."""
    words = extract_content(text)
    return all(len(words & extract_content(fact["content"])) < 2 for fact in facts)


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
    rows = [_format_row(name, each) for name, figures in results.items() for each in figures]
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


def _format_row(name: str, figures: MonthFigures) -> tuple[str, ...]:
    nights = figures.night_calls
    read = sum(usage.input_tokens for usage in figures.usage.values())
    written = sum(usage.output_tokens for usage in figures.usage.values())
    return (
        name,
        figures.mode,
        f"{len(figures.answered)}/{figures.questions}",
        f"{len(figures.answered) / max(1, figures.questions):.3f}",
        str(len(figures.outdated)),
        f"{figures.replaced}/{figures.updates}",
        f"{len(figures.wrongly_ended)}",
        f"{len(figures.false_records)}",
        f"{figures.false_lines}",
        f"{figures.junk}/{figures.records}",
        f"{figures.mean_tokens:,.0f}",
        f"{figures.mean_changing:,.0f}",
        f"{figures.lines / max(1, figures.questions):.1f}",
        f"{figures.alike / max(1, figures.lines):.1%}",
        f"{figures.calls['read'] / max(1, figures.conversations):.2f}",
        f"{sum(nights) / max(1, len(nights)):.2f} (most {max(nights, default=0)})",
        f"{read:,}",
        f"{written:,}",
    )
