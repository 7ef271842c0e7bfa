"""Arrays and `.npz` files that hold no matches: one line, never another error."""

import datetime
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import strategies
from builders import NO_FILES, matches_of, no_file, result_or_line
from nmfsync import MultiMatching, NmfsyncError, PairwiseMatches

SOUND = matches_of([(0, 2), (1, 3, 0.5)], [2, 2, 1]).arrays()

ODD = [
    None, "text", b"bytes", 3, 2.5, True, float("nan"), 1j, 10**30, -1, [], {}, object(),
    ["a", "b"], [None], [[1], [1, 2]], [1, None], [1j], [10**30], [True, False], [2**63, 0],
    [2**62, 2**62, 2**62], [2**40, 1], [-1, 2], [np.inf, 1], [np.nan], [1.5, 0.5],
    [datetime.date(2020, 1, 1)], np.array(["2020-01-01"], "M8[D]"), np.zeros((2, 2, 2)),
    np.zeros((0, 0)), np.eye(5) * 1j, np.eye(5) == 1, np.array([["1"] * 5] * 5), np.zeros(3, "V4"),
    np.full((5, 5), None), np.zeros(2, [("a", "i4")]), sparse.coo_array(np.ones(3)), np.ma.masked,
]  # fmt: skip


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_anything_in_place_of_an_argument(odd):
    value = ODD[odd]
    for call in (
        lambda: PairwiseMatches(value, [2, 2, 1]),
        lambda: PairwiseMatches(np.eye(5), value),
        lambda: PairwiseMatches.from_entries(value, [1], [2, 2]),
        lambda: PairwiseMatches.from_entries([1], value, [2, 2]),
        lambda: PairwiseMatches.from_entries([0], [2], value),
        lambda: PairwiseMatches.from_entries([0], [2], [2, 2], value) if value is not None else "",
        lambda: MultiMatching(value, [2, 2, 1]),
        lambda: MultiMatching([0, 1, 0, 1, 0], value),
    ):
        result_or_line(call)


def test_what_is_wrong_is_said():
    for call, message in (
        (lambda: PairwiseMatches(None, [1]), "W must be a matrix of numbers"),
        (lambda: PairwiseMatches(np.eye(2) * 1j, [1, 1]), "values of type complex128"),
        (lambda: PairwiseMatches(np.zeros((2, 2, 2)), [1, 1]), "it has 3 dimensions"),
        (lambda: PairwiseMatches(np.eye(2), [2**62] * 4), "sizes add up to 18,446,744,073,709"),
        (lambda: PairwiseMatches(np.eye(2), ["a", "b"]), "sizes must be a list of numbers"),
        (lambda: PairwiseMatches(np.eye(2), [np.inf, 1]), "sizes must be whole numbers"),
        (lambda: PairwiseMatches.from_entries([0.5], [1], [1, 1]), "p must be whole numbers"),
        (lambda: PairwiseMatches.from_entries([0], [1, 2], [1, 2]), "one length, not 1, 2 and 1"),
        (lambda: PairwiseMatches.from_entries([0], [5], [1, 2]), "numbers from 0 to 2"),
    ):
        with pytest.raises(NmfsyncError, match=message):
            call()


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("index", [-1, 4, 10**6])
def test_indices_outside_a_sparse_matrix(kind, index):
    """They made SciPy read memory that is not its own."""
    W = sparse.eye_array(4, format=kind)
    indices = W.coords[1] if kind == "coo" else W.indices
    indices[2] = index
    with pytest.raises(NmfsyncError, match="W must be a matrix of numbers"):
        PairwiseMatches(W, [2, 2])


def write(path, **changed):
    np.savez_compressed(path, **{**SOUND, **changed})
    return path


@pytest.mark.parametrize("name", ["data", "indices", "indptr", "sizes"])
def test_anything_in_place_of_an_array(tmp_path, name):
    for value in ODD:
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            array = np.array([None])
        path = write(tmp_path / "m.npz", **{name: array})
        assert f"{path}: " in result_or_line(PairwiseMatches.load, path)


@pytest.mark.parametrize("name", ["scored", "ratios"])
@pytest.mark.parametrize("value", ["text", [1, 2, 3], [[np.nan] * 2], [1j, 1j], []])
def test_other_arrays(tmp_path, name, value):
    result_or_line(PairwiseMatches.load, write(tmp_path / "m.npz", **{name: value}))


def header(shape, descr="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": descr}
    )
    return file.getvalue()


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("shape", [(10**15,), (2**62, 2**62), (-1,), (10**9,), (2**70,)])
def test_headers_that_claim_too_much(tmp_path, shape):
    path = archive(tmp_path / "m.npz", data=header(shape) + bytes(80))
    assert "m.npz: " in result_or_line(PairwiseMatches.load, path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    """A file of a few kB that would fill the memory."""
    memory = type("Memory", (), {"available": 10**8})
    monkeypatch.setattr("nmfsync.runtime.files.psutil.virtual_memory", lambda: memory)
    monkeypatch.setattr(np, "load", None)  # must not be called
    path = tmp_path / "m.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("data.npy", "w") as out,
    ):
        out.write(header((4 * 10**7,)))
        for _ in range(32):
            out.write(bytes(10**7))
    assert "its content needs 0.3 GB of memory" in result_or_line(PairwiseMatches.load, path)


def test_archives_that_are_odd(tmp_path):
    whole = write(tmp_path / "m.npz").read_bytes()
    unknown = bytearray(whole)
    for start in (b"PK\x03\x04", b"PK\x01\x02"):
        at = unknown.index(start) + (8 if start[2] == 3 else 10)
        unknown[at : at + 2] = b"\x63\x00"  # a compression that nobody knows
    encrypted = bytearray(whole)
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], object), allow_pickle=True)
    members = {name: pickled.getvalue() for name in SOUND}
    odd = [bytes(unknown), bytes(encrypted), b"", b"PK", whole[:-30]]
    odd.append(archive(tmp_path / "empty.npz").read_bytes())
    odd.append(archive(tmp_path / "pickled.npz", **members).read_bytes())
    odd.append(archive(tmp_path / "text.npz", data=b"text").read_bytes())
    for content in odd:
        (tmp_path / "odd.npz").write_bytes(content)
        line = result_or_line(PairwiseMatches.load, tmp_path / "odd.npz")
        assert "odd.npz: " in line, content[:50]


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(tmp_path, kind):
    path = no_file(tmp_path / "m.npz", kind)
    assert f"{path}: " in result_or_line(PairwiseMatches.load, path)


def test_damaged_anywhere(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, **SOUND)
    sound = path.read_bytes()

    @settings(max_examples=150, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        path.write_bytes(content)
        result_or_line(PairwiseMatches.load, path)

    check()


@settings(max_examples=150, derandomize=True, database=None)
@given(
    st.lists(st.floats() | st.floats(0, 1), max_size=8),
    st.lists(st.integers(-3, 8), max_size=8),
    st.lists(st.integers(-2, 9), max_size=6),
    st.lists(st.integers(-1, 4), max_size=4),
)
def test_any_numbers(data, indices, indptr, sizes):
    arrays = {"data": data, "indices": indices, "indptr": indptr, "sizes": sizes}
    result_or_line(PairwiseMatches.from_arrays, {n: np.array(a) for n, a in arrays.items()})
