"""The file of vectors: written vectors are found, removed vectors leave no byte."""

import sqlite3

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
    return NewVector(key, subject, scope, digest, None if vector is None else quantize_vector(vector))


def write(file, *vectors):
    with file.change() as change:
        change.write(vectors)


@pytest.fixture(params=["disk", "memory"])
def file(request, tmp_path):
    return VectorFile(tmp_path / "index" / "a.vectors" if request.param == "disk" else None)


def test_nearest_comes_first_of_the_kind_and_the_scopes(file):
    write(file, make(1, [1, 0, 0, 0]), make(2, [1, 1, 0, 0]), make(3, [0, 0, 1, 0]), make(9, None))
    near = file.search(normalize_vector([1, 0.1, 0, 0]), "record", None)
    assert near.list_nearest(2) == [1, 2]
    assert near.get_cosines([3, 1, 9, 99]) == pytest.approx({1: 0.995, 3: 0.0}, abs=0.01)
    assert (file.count(), file.dimension) == (4, 4)
    write(file, make(2, [1, 0, 0, 0], scope=8), make(4, [1, 0, 0, 0], subject="turn"))
    for subject, scopes, expected in [
        ("record", [7], [1, 3]),
        ("turn", [7, 8], [4]),
        ("paragraph", None, []),
    ]:
        assert file.search(normalize_vector([1, 0, 0, 0]), subject, scopes).list_nearest(9) == expected


def test_two_texts_are_compared_in_deviations_among_the_asked_texts(file):
    write(file, make(1, [1, 0, 0, 0]), make(5, [0, 0, 1, 0]), make(2, [1, 0.1, 0, 0], scope=8))
    write(file, make(3, [0, 1, 0, 0]), make(4, [1, 0, 0, 0], subject="turn"))
    likeness = file.compare("record", [3, 1, 2, 4, 99], None)
    assert likeness.get(1, 2) == likeness.get(2, 1) == pytest.approx(2**0.5, abs=0.05)
    assert likeness.get(1, 3) == pytest.approx(-0.82, abs=0.05)
    assert likeness.get(1, 4) is likeness.get(1, 5) is likeness.get(99, 1) is None
    assert file.compare("record", [1, 2], [8]).get(1, 2) is None
    assert file.compare("record", [1, 1], [7, 8]).get(1, 1) == pytest.approx(1, abs=0.01)
    assert file.compare("record", [], None).get(1, 2) is None


def test_a_removed_or_replaced_vector_leaves_no_byte(tmp_path):
    file = VectorFile(tmp_path / "index" / "a.vectors")
    vectors = [list(np.random.default_rng(number).normal(size=384)) for number in range(200)]
    write(file, *(make(number + 1, vector) for number, vector in enumerate(vectors)))

    def find_remains():
        content = b"".join(each.read_bytes() for each in (tmp_path / "index").iterdir())
        return [
            place for place, vector in enumerate(vectors) if quantize_vector(vector).numbers[:8] in content
        ]

    assert find_remains() == list(range(200))
    with file.change() as change:
        change.remove(range(1, 200, 2))
        change.write([make(2, [1.0] * 384)])
    assert find_remains() == list(range(3, 200, 2))
    with file.change() as change:
        change.remove(range(1, 300))
    assert find_remains() == []


def test_another_process_sees_each_change_and_a_new_file(tmp_path):
    first, second = (VectorFile(tmp_path / "index" / "a.vectors") for _ in range(2))
    assert (second.count(), second.followed, second.dimension) == (0, 0, 0)
    for number in range(1, 30):
        with first.change() as change:
            change.write([make(number, [1, 0, 0, 0]), make(1_000 + number, [0, 1, 0, 0])])
            change.remove([1_000 + number - 1])
            change.set_followed(number)
        near = second.search(normalize_vector([1, 0, 0, 0]), "record", None)
        assert sorted(near.list_nearest(99)) == [*range(1, number + 1), 1_000 + number]
        assert second.followed == number
    first.delete()
    assert (second.count(), second.followed, second.dimension) == (0, 0, 0)
    write(first, make(5, [0, 1, 0]))
    assert second.search(normalize_vector([0, 1, 0]), "record", None).get_cosines([5, 6]) == {
        5: pytest.approx(1)
    }


def test_an_interrupted_change_changes_nothing(file):
    write(file, make(1, [1, 0, 0, 0]))

    def interrupt():
        with file.change() as change:
            change.write([make(2, [1, 0, 0, 0])])
            change.set_followed(12)
            raise LookupError

    with pytest.raises(LookupError):
        interrupt()
    assert (file.count(), file.followed) == (1, 0)


def test_damages_are_noticed(tmp_path):
    path = tmp_path / "index" / "a.vectors"
    write(VectorFile(path), *(make(key, [key, 1, 0, 0]) for key in range(1, 200)))
    content = path.read_bytes()
    assert not VectorFile(path).is_damaged()
    for damaged in (content[:5_000], b"x" + content[1:], b"hello " * 2_000):
        path.write_bytes(damaged)
        assert VectorFile(path).is_damaged()
        with pytest.raises(VectorFileDamaged):
            VectorFile(path).search(normalize_vector([1, 0, 0, 0]), "record", None)
    path.write_bytes(content)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE vector SET numbers = x'01020304' WHERE key = 7")
    connection.close()
    assert VectorFile(path).is_damaged()


def test_a_value_that_is_not_a_vector_is_refused():
    for vector in ([], [float("nan")], [[1.0]], ["x"]):
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
    file = VectorFile(None)
    table = {}
    for key, action, vector in steps:
        with file.change() as change:
            if action:
                change.write([make(key, vector)])
                table[key] = normalize_vector(vector)
            else:
                change.remove([key])
                table.pop(key, None)
        near = file.search(normalize_vector([1, 2, 3, 4]), "record", None)
        expected = {
            key: float(vector @ normalize_vector([1, 2, 3, 4]))
            for key, vector in table.items()
            if any(vector)
        }
        assert near.get_cosines(sorted(table)) == pytest.approx(expected, abs=0.02)
    assert set(file.read_digests(range(30))) == set(table)
