"""Reader of TREC and BEIR folders: documents, questions and judgements.

The first existing file of each list is read:

* documents: `corpus.jsonl`, `documents.jsonl`, `docs.jsonl`; a folder `documents` or `docs`, of which
  every file is read; `documents.trec`, `docs.trec`, `*.sgml`. A JSON line has `_id` (or `docno`, `id`),
  `text`, and perhaps `title`; any other file has `<DOC>` with `<DOCNO>` and `<TEXT>`. A document without `<TEXT>` is
  read completely.
* questions: `queries.jsonl`, `topics.jsonl` (`_id` or `id`, `text`); `topics.trec`, `topics.txt`,
  `topics`, `topics.*` with `<top>`, `<num>` and `<title>` (`<desc>` where there is no title).
* judgements: `qrels/test.tsv` and `qrels.tsv` (BEIR: question, document, grade, with a heading),
  `qrels.trec`, `qrels.txt`, `qrels`, `qrels.*` (TREC: question, anything, document, grade). A grade of 0
  or less is not relevant.

A file of tags that is not UTF-8 is read as Latin-1, as older collections are. A question without a judgement is
counted, not asked.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evaluation.boards.datasets import DocumentCollection, EvalDocument, EvalQuestion, read_text
from reverie.admin.transfer import safe_reading
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.json_values import describe_type

DOCUMENTS = (
    "corpus.jsonl",
    "documents.jsonl",
    "docs.jsonl",
    "documents",
    "docs",
    "documents.trec",
    "docs.trec",
)
TOPICS = ("queries.jsonl", "topics.jsonl", "topics.trec", "topics.txt", "topics")
JUDGEMENTS = ("qrels/test.tsv", "qrels.tsv", "qrels.trec", "qrels.txt", "qrels")

_OLD = "latin-1"
_DOC = defer_regex(r"<DOC>(.*?)</DOC>", re.DOTALL | re.IGNORECASE)
_DOCNO = defer_regex(r"<DOCNO>\s*(\S+)\s*</DOCNO>", re.IGNORECASE)
_TITLE = defer_regex(r"<(TITLE|HEADLINE|HEAD|TI|HL)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TEXT = defer_regex(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_TAG = defer_regex(r"<[^>]*>")
_TOPIC = defer_regex(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = defer_regex(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TOPIC_TITLE = defer_regex(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_DESCRIPTION = defer_regex(r"<desc>\s*(?:Description:)?([^<]*)", re.IGNORECASE)


def read(path: Path) -> DocumentCollection:
    """Read the documents, questions and judgements of a folder.

    Raises:
        InvalidInput: a file is missing or not of its form; the message names the place.
    """
    if not path.is_dir():
        raise InvalidInput(f"{path}: expected a folder with documents, questions and judgements")
    dropped: Counter[str] = Counter()
    documents = _load_documents(_find(path, DOCUMENTS, "*.sgml", "documents"), dropped)
    topics = _load_topics(_find(path, TOPICS, "topics.*", "questions"))
    grades = _load_grades(_find(path, JUDGEMENTS, "qrels.*", "judgements"), topics, documents, dropped)
    return DocumentCollection(
        name=path.resolve().name,
        documents=tuple(EvalDocument(id=name, text=text) for name, text in documents.items()),
        questions=tuple(
            EvalQuestion(id=name, text=text, evidence=grades.get(name, {})) for name, text in topics.items()
        ),
        dropped=dict(dropped),
    )


def _find(path: Path, names: Sequence[str], pattern: str, what: str) -> Path:
    for name in names:
        if (path / name).exists() and not (name == "qrels" and (path / name).is_dir()):
            return path / name
    if found := sorted(path.glob(pattern)):
        return found[0]
    raise InvalidInput(f"{path}: no {what}: looked for {', '.join(names)} and {pattern}")


def _load_documents(place: Path, dropped: Counter[str]) -> dict[str, str]:
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    documents: dict[str, str] = {}
    for file in files:
        for name, text in (
            _iterate_json_documents(file) if file.suffix == ".jsonl" else _iterate_sgml_documents(file)
        ):
            if name in documents:
                raise InvalidInput(f"{file}: document {name!r} is there twice")
            if text:
                documents[name] = text
            else:
                dropped["documents without any text"] += 1
    if not documents:
        raise InvalidInput(f"{place}: no documents in it")
    return documents


def _iterate_json_documents(file: Path) -> Iterator[tuple[str, str]]:
    for place, line in _read_json_lines(file):
        title, text = (str(line.get(key) or "").strip() for key in ("title", "text"))
        yield _extract_id(line, ("_id", "docno", "id"), place), f"{title}\n{text}".strip()


def _iterate_sgml_documents(file: Path) -> Iterator[tuple[str, str]]:
    for number, found in enumerate(_DOC.finditer(read_text(file, otherwise=_OLD)), start=1):
        inner = found[1]
        name = _DOCNO.search(inner)
        if name is None:
            raise InvalidInput(f"{file}, document {number}: there is no <DOCNO> in it")
        titles = [title for _, title in _TITLE.findall(inner)]
        bodies = _TEXT.findall(inner)
        if not bodies:
            bodies = [_TITLE.sub(" ", _DOCNO.sub(" ", inner))]
        plain = html.unescape(_TAG.sub(" ", "\n".join([*titles, *bodies])))
        yield name[1], " ".join(plain.split())


def _load_topics(file: Path) -> dict[str, str]:
    found = _iterate_json_topics(file) if file.suffix == ".jsonl" else _iterate_sgml_topics(file)
    topics: dict[str, str] = {}
    for name, text in found:
        if name in topics:
            raise InvalidInput(f"{file}: question {name!r} is there twice")
        topics[name] = text
    if not topics:
        raise InvalidInput(f"{file}: no questions in it")
    return topics


def _iterate_json_topics(file: Path) -> Iterator[tuple[str, str]]:
    for place, line in _read_json_lines(file):
        if not isinstance(line.get("text"), str):
            raise InvalidInput(f"{place}: there is no 'text' in it")
        yield _extract_id(line, ("_id", "id"), place), line["text"].strip()


def _iterate_sgml_topics(file: Path) -> Iterator[tuple[str, str]]:
    for position, found in enumerate(_TOPIC.finditer(read_text(file, otherwise=_OLD)), start=1):
        inner = found[1]
        number = _NUMBER.search(inner)
        asked = next(
            (text for form in (_TOPIC_TITLE, _DESCRIPTION) if (text := _to_plain_text(form.search(inner)))),
            "",
        )
        if number is None or not asked:
            raise InvalidInput(f"{file}, topic {position}: there is no <num>, or neither <title> nor <desc>")
        yield number[1], asked


def _to_plain_text(found: re.Match[str] | None) -> str:
    return " ".join(html.unescape(found[1]).split()) if found else ""


def _load_grades(
    file: Path, topics: dict[str, str], documents: dict[str, str], dropped: Counter[str]
) -> dict[str, dict[str, float]]:
    grades: dict[str, dict[str, float]] = {}
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        fields = line.split()
        if not fields or (number == 1 and fields[-1].lower() in ("score", "grade", "relevance")):
            continue
        try:
            question, document, grade = fields[0], fields[-2], float(fields[-1])
        except (ValueError, IndexError):
            question, document, grade = "", "", 0.0
        if len(fields) not in (3, 4) or not question:
            raise InvalidInput(
                f"{file}, line {number}: expected 'question 0 document grade', or with tabs and without the 0"
            )
        if grade <= 0:
            dropped["judgements of no relevance"] += 1
        elif question not in topics:
            dropped["judgements of questions that are missing"] += 1
        elif document not in documents:
            dropped["judgements of documents that are missing or empty"] += 1
        else:
            judged = grades.setdefault(question, {})
            judged[document] = max(judged.get(document, 0.0), grade)
    return grades


def _read_json_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with safe_reading.open_file(file) as opened:
        for place, value in safe_reading.iter_values(opened):
            if not isinstance(value, dict):
                what = (
                    value
                    if isinstance(value, InvalidInput)
                    else f"{describe_type(value)} instead of an object"
                )
                raise InvalidInput(f"{file}, {place}: {what}: write one JSON object a line")
            yield f"{file}, {place}", value


def _extract_id(line: dict[str, Any], keys: tuple[str, ...], place: str) -> str:
    for key in keys:
        if isinstance(line.get(key), str | int) and str(line[key]):
            return str(line[key])
    raise InvalidInput(f"{place}: no id: expected {' or '.join(keys)}")
