"""The labelled texts: enough of them, sound, holding nothing that could be a key, and judged as published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from evaluation.measures.harness import CHECKOUT_DATA
from evaluation.measures.secret_detection import EVALUATION, judge_text

from reverie.domain.secrets.redactor import Redactor

TEXTS = EVALUATION.load_set("texts")
RESULTS = [judge_text(text) for text in TEXTS]


def test_there_are_enough_of_both_sorts_in_both_sets() -> None:
    counts = Counter((each.set, bool(each.spans)) for each in TEXTS)
    assert sum(counts[which, True] for which in ("develop", "heldout")) >= 250
    assert sum(counts[which, False] for which in ("develop", "heldout")) >= 250
    for secret in (True, False):
        share = counts["develop", secret] / (counts["develop", secret] + counts["heldout", secret])
        assert 0.55 < share < 0.65


def test_nothing_in_the_repository_looks_like_a_key() -> None:
    raw = (CHECKOUT_DATA / EVALUATION.files["texts"]).read_text(encoding="utf-8")
    prefixes = (
        "AKIA",
        "ghp_",
        "github_pat_",
        "sk-ant-",
        "sk-proj-",
        "xoxb-",
        "sk_live_",
        "SG.",
        "glpat-",
        "AIza",
    )
    found = {prefix: raw.count(prefix) for prefix in prefixes if prefix in raw}
    assert found.keys() <= {"AKIA", "ghp_", "xoxb-"}, "only those of placeholders"
    redactor = Redactor()
    for line in raw.splitlines():
        kinds = [kind for kind in redactor.kinds(json.loads(line)["text"])]
        assert all(
            kind in {"password", "secret", "token", "key", "cookie", "password in url"} for kind in kinds
        )


def test_the_published_error_rates_hold() -> None:
    """The floor under what docs/explanation/security.md says."""
    for which, most_missed, most_wrong in (("develop", 37, 0), ("heldout", 41, 0)):
        part = [each for each in RESULTS if each.labelled.set == which]
        assert sum(len(each.missed) for each in part) <= most_missed
        assert sum(bool(each.found) for each in part if not each.labelled.spans) <= most_wrong


def test_texts_of_ones_own_can_be_measured(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    rows = [
        {"id": "a", "set": "develop", "kind": "mine", "seed": 1, "text": "key «openai» and « chat »"},
        {"id": "b", "set": "develop", "kind": "other", "seed": 2, "text": "commit ‹sha1›"},
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    one, other = map(judge_text, EVALUATION.read_file(file))
    assert not one.missed
    assert not other.found
    assert one.labelled.text.endswith("and « chat »")
