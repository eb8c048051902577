"""Reader of Cranfield 1400: abstracts on aerodynamics, questions and judgements.

Files: `cran.all.1400` (documents), `cran.qry` (questions) and `cranqrel` (judgements: question, document,
code). The judgements number the questions by their order in `cran.qry`, not by the numbers in it. Codes 1 to 4 are
relevant, others (-1, 5) are not. Sources disagree on whether 1 or 4 is better, so a document is just relevant or not,
as in most published figures (plain BM25 with stemming has an nDCG@10 of about .38).

A judgement of four columns is in TREC's form (`question 0 document grade`), as in corrected copies of the file. There
a larger grade is better, and it is used as it is.

A document is its title and its abstract, as in the file (the abstract repeats the title).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from evaluation.boards.datasets import DocumentCollection, EvalDocument, EvalQuestion, read_text
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

_SECTION = defer_regex(r"^\.([ITABW])[ ]?(.*)$")


def read(path: Path) -> DocumentCollection:
    """Read the documents, questions and judgements of a folder.

    Raises:
        InvalidInput: a file is missing or not of its form; the message names the line.
    """
    documents = [
        EvalDocument(id=number, text=text)
        for number, parts in _parse_entries(path / "cran.all.1400")
        if (text := _join_text(parts.get("T", ""), parts.get("W", "")))
    ]
    asked = [parts.get("W", "") for _, parts in _parse_entries(path / "cran.qry")]
    dropped: Counter[str] = Counter()
    grades = _load_grades(path / "cranqrel", len(asked), {document.id for document in documents}, dropped)
    questions = tuple(
        EvalQuestion(id=str(number), text=text, evidence=grades.get(number, {}))
        for number, text in enumerate(asked, start=1)
    )
    return DocumentCollection(
        name=path.resolve().name, documents=tuple(documents), questions=questions, dropped=dict(dropped)
    )


def _parse_entries(file: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the entries of a file: the number of each, and its sections by letter."""
    entries: list[tuple[str, dict[str, list[str]]]] = []
    section = ""
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        found = _SECTION.match(line)
        if found and found[1] == "I":
            entries.append((found[2].strip(), {}))
            section = ""
        elif found and entries and not found[2].strip():
            section = found[1]
            entries[-1][1].setdefault(section, [])
        elif section:
            entries[-1][1][section].append(line)
        elif line.strip():
            raise InvalidInput(f"{file}, line {number}: text outside a section: expected '.I' and a number")
    if not entries:
        raise InvalidInput(f"{file}: no entry that begins with '.I'")
    return [
        (number, {name: " ".join(lines).strip() for name, lines in parts.items()})
        for number, parts in entries
    ]


def _join_text(title: str, abstract: str) -> str:
    return " ".join(f"{title} {abstract}".split())


def _load_grades(
    file: Path, questions: int, documents: set[str], dropped: Counter[str]
) -> dict[int, dict[str, float]]:
    grades: dict[int, dict[str, float]] = {}
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            values = [int(field) for field in fields]
        except ValueError:
            values = []
        if len(values) not in (3, 4):
            raise InvalidInput(f"{file}, line {number}: expected 'question document code', in whole numbers")
        question, document, code = values[0], str(values[-2]), values[-1]
        if not 1 <= question <= questions:
            raise InvalidInput(f"{file}, line {number}: there is no question {question}")
        grade = code if len(values) == 4 else int(1 <= code <= 4)
        if grade <= 0:
            dropped["judgements of no relevance"] += 1
        elif document not in documents:
            dropped["judgements of documents that are missing or empty"] += 1
        else:
            judged = grades.setdefault(question, {})
            judged[document] = max(judged.get(document, 0.0), float(grade))
    return grades
