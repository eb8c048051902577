"""The file of vectors: what is written is found, what is removed leaves no byte."""

import os

import pytest

np = pytest.importorskip("numpy")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from reverie.search.vectors.vector_file import (  # noqa: E402
    NewVector,
    VectorFile,
    VectorFileDamaged,
    normalize_vector,
    quantize_vector,
)


def make(key, vector, *, scope=7, digest=1, subject="record"):
    return NewVector(key, subject, scope, digest, quantize_vector(vector))


@pytest.fixture(params=["disk", "memory"])
def file(request, tmp_path):
    file = VectorFile(tmp_path / "a.vectors" if request.param == "disk" else None, "space", 4)
    yield file
    file.close()


def test_nearest_comes_first_and_cosines_are_close(file):
    file.write([make(1, [1, 0, 0, 0]), make(2, [1, 1, 0, 0]), make(3, [0, 0, 1, 0])])
    near = file.search(normalize_vector([1, 0.1, 0, 0]), "record", None)
    assert near.list_nearest(2) == [1, 2]
    assert near.get_cosines([3, 1, 99]) == pytest.approx({1: 0.995, 3: 0.0}, abs=0.01)


def test_only_the_kind_and_the_scopes_asked_for_are_searched(file):
    file.write([make(1, [1, 0, 0, 0], scope=7), make(2, [1, 0, 0, 0], scope=8)])
    file.write([make(3, [1, 0, 0, 0], scope=7, subject="turn")])
    assert file.search(normalize_vector([1, 0, 0, 0]), "record", [7]).list_nearest(9) == [1]
    assert file.search(normalize_vector([1, 0, 0, 0]), "turn", [7, 8]).list_nearest(9) == [3]


def test_two_texts_are_compared_in_deviations_among_those_asked_for(file):
    file.write([make(1, [1, 0, 0, 0]), make(5, [0, 0, 1, 0]), make(2, [1, 0.1, 0, 0], scope=8)])
    file.write([make(3, [0, 1, 0, 0]), make(4, [1, 0, 0, 0], subject="turn")])
    likeness = file.compare("record", [3, 1, 2, 4, 99], None)
    assert likeness.get(1, 2) == likeness.get(2, 1) == pytest.approx(2**0.5, abs=0.05)
    assert likeness.get(1, 3) == pytest.approx(-0.82, abs=0.05)
    assert likeness.get(1, 4) is likeness.get(1, 5) is likeness.get(99, 1) is None
    assert file.compare("record", [1, 2], [8]).get(1, 2) is None
    assert file.compare("record", [1, 1], [7, 8]).get(1, 1) == pytest.approx(1, abs=0.01)
    assert file.compare("record", [], None).get(1, 2) is None


def test_a_removed_vector_leaves_no_byte(tmp_path):
    file = VectorFile(tmp_path / "a.vectors", "space", 4)
    file.write([make(0x1122334455667788, [1, 0.5, 0.25, 0.125], digest=0x99AABBCCDDEEFF11)])
    assert (0x1122334455667788).to_bytes(8, "little") in (tmp_path / "a.vectors").read_bytes()
    file.remove([0x1122334455667788])
    rows = (tmp_path / "a.vectors").read_bytes()[4096:]
    assert not any(rows)
    file.close()


def test_freed_places_are_used_again(file):
    file.write([make(key, [1, 0, 0, 0]) for key in range(1, 301)])
    file.remove(range(1, 301))
    file.write([make(key, [0, 1, 0, 0]) for key in range(1_001, 1_301)])
    assert len(file._rows()) == 300
    assert file.count() == 300


def test_another_process_sees_what_was_written(tmp_path):
    first, second = (VectorFile(tmp_path / "a.vectors", "space", 4) for _ in range(2))
    first.write([make(key, [1, 0, 0, 0]) for key in range(1, 1_001)])
    first.set_followed(12)
    assert second.count() == 1_000
    assert second.followed == 12
    assert second.search(normalize_vector([1, 0, 0, 0]), "record", None).count == 1_000
    first.close()
    second.close()


@pytest.mark.parametrize("damage", ["empty", "short", "other", "magic"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "a.vectors"
    file = VectorFile(path, "space", 4)
    file.write([make(1, [1, 0, 0, 0])])
    file.close()
    if damage == "other":
        with pytest.raises(VectorFileDamaged):
            VectorFile(path, "another", 4)
        return
    if damage == "magic":
        path.write_bytes(b"x" + path.read_bytes()[1:])
    else:
        os.truncate(path, 0 if damage == "empty" else 5_000 - 900)
    with pytest.raises(VectorFileDamaged):
        VectorFile(path, "space", 4).count()


def test_a_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "a.vectors"
    file = VectorFile(path, "space", 4)
    file.write([make(1, [1, 0, 0, 0]), make(2, [1, 0, 0, 0])])
    assert file.find_damaged_rows() == []
    content = bytearray(path.read_bytes())
    content[4096 + 40 + 4 + 10] ^= 1
    path.write_bytes(content)
    assert VectorFile(path, "space", 4).find_damaged_rows() == [1]
    file.close()


@pytest.mark.parametrize("vector", [[], [float("nan")], [[1.0]], ["x"]])
def test_what_is_no_vector_is_refused(vector):
    with pytest.raises(ValueError):
        normalize_vector(vector)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 20), st.integers(0, 2), st.lists(st.integers(-9, 9), min_size=4, max_size=4)
        ),
        max_size=40,
    )
)
def test_any_order_of_writes_and_removals_agrees_with_a_plain_table(steps):
    file = VectorFile(None, "space", 4)
    table = {}
    for key, action, vector in steps:
        if action:
            file.write([make(key, vector)])
            table[key] = normalize_vector(vector)
        else:
            file.remove([key])
            table.pop(key, None)
    assert set(file.read_digests()) == set(table)
    near = file.search(normalize_vector([1, 2, 3, 4]), "record", None)
    expected = {
        key: float(vector @ normalize_vector([1, 2, 3, 4])) for key, vector in table.items() if any(vector)
    }
    assert near.get_cosines(sorted(table)) == pytest.approx(expected, abs=0.02)


def test_a_file_that_nobody_uses_any_more_is_closed(tmp_path):
    file = VectorFile(tmp_path / "one.vectors", "space", 2)
    descriptor = file._descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
