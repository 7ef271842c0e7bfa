"""Pairs of images: all, those in order, from files, and the choice of one of these."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import (
    NO_FILES,
    check_pairs,
    no_file,
    one_line,
    random_images,
    result_or_line,
    ring_of_images,
)
from nmfsync import NmfsyncError, NmfsyncWarning
from nmfsync.matching.pairs import all_pairs, read_pairs, select_pairs, sequential_pairs
from nmfsync.matching.similarity import nearest_pairs


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
def test_all_pairs_by_definition(k):
    pairs = all_pairs(k)
    check_pairs(pairs)
    assert pairs.tolist() == [list(pair) for pair in combinations(range(k), 2)]


@pytest.mark.parametrize("k", [0, 1, 2, 7])
@pytest.mark.parametrize("window", [1, 3, 6, 7, 100])
def test_sequential_pairs_by_definition(k, window):
    pairs = sequential_pairs(k, window)
    check_pairs(pairs)
    assert pairs.tolist() == [[i, j] for i, j in combinations(range(k), 2) if j - i <= window]


def test_sequential_pairs_of_many_images_do_not_go_through_all_pairs():
    assert len(sequential_pairs(1_000_000, 1)) == 999_999


def test_numbers_of_neighbours_below_one_are_refused():
    with pytest.raises(NmfsyncError, match="window of sequential pairs must be at least 1, got 0"):
        sequential_pairs(5, 0)
    with pytest.raises(NmfsyncError, match="neighbours must be at least 1, got -1"):
        nearest_pairs(random_images(3, 3), -1)


NAMES = ("a.jpg", "b.jpg", "left/1.png", "my photo.jpg", "photo.jpg", "my", "x  y.png")


def write(tmp_path, content):
    path = tmp_path / "pairs.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a.jpg b.jpg\n", [[0, 1]]),
        ("left/1.png a.jpg\na.jpg b.jpg", [[0, 1], [0, 2]]),
        ("a.jpg b.jpg\nb.jpg a.jpg\na.jpg b.jpg\n", [[0, 1]]),
        ("# all pairs\n\n  \n  # more\na.jpg\tb.jpg  \r\n", [[0, 1]]),
        ("\ufeffa.jpg   b.jpg", [[0, 1]]),
        ("a.jpg my photo.jpg\nmy photo.jpg  b.jpg", [[0, 3], [1, 3]]),
        ("my photo.jpg", [[4, 5]]),  # two images, as one of that name with itself is no pair
        ("my my photo.jpg", [[3, 5]]),
        ("x  y.png a.jpg", [[0, 6]]),
    ],
)
def test_pairs_are_read(tmp_path, content, expected):
    pairs = read_pairs(write(tmp_path, content), NAMES)
    check_pairs(pairs)
    assert pairs.tolist() == expected


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("a.jpg b.jpg\n\na.jpg c.jpg", ", line 3: there is no image 'c.jpg'"),
        ("c.jpg a.jpg", ", line 1: there is no image 'c.jpg'"),
        ("c.jpg d.jpg", ", line 1: there is no image 'c.jpg'"),
        ("# a\na.jpg", ", line 2: must contain two image names, got 'a.jpg'"),
        ("a.jpg b.jpg left/1.png", ", line 1: must contain two image names, got"),
        ("a.jpg x y.png", ", line 1: must contain two image names, got"),  # two blanks in the name
        ("a.jpg a.jpg", ", line 1: a.jpg is paired with itself"),
        ("", ": contains no pair of images"),
        ("# a.jpg b.jpg\n", ": contains no pair of images"),
        (b"\xff\xfea\x00", ": not a text file"),
        (b"a.jpg\x00b.jpg", ": not a text file"),
    ],
)
def test_faults_of_files_are_named(tmp_path, content, fault):
    path = write(tmp_path, content)
    with pytest.raises(NmfsyncError) as error:
        read_pairs(path, NAMES)
    assert str(error.value).startswith(f"{path}{fault}")


def test_a_line_that_can_be_read_in_two_ways_is_refused(tmp_path):
    path = write(tmp_path, "a b c")
    with pytest.raises(NmfsyncError, match=r"line 1: 'a b c' can be read .* in several ways"):
        read_pairs(path, ["a", "b c", "a b", "c"])


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(NmfsyncError, match=r"none\.txt: no such file"):
        read_pairs(tmp_path / "none.txt", NAMES)
    with pytest.raises(NmfsyncError, match=r"is a folder, not a file"):
        read_pairs(tmp_path, NAMES)


def test_every_choice_makes_its_pairs(tmp_path):
    collection, _ = ring_of_images(7, 40)
    names = [f"{i}.png" for i in range(7)]
    path = write(tmp_path, "\n".join(f"0.png {i}.png" for i in range(1, 7)))

    def select(choice):
        return select_pairs(choice, collection, names).tolist()

    assert select("all") == all_pairs(7).tolist()
    assert select("sequential:2") == sequential_pairs(7, 2).tolist()
    assert select("nearest:3") == nearest_pairs(collection, 3).tolist()
    assert select("nearest:03") == select("nearest:3")
    assert select(str(path)) == [[0, i] for i in range(1, 7)]


@pytest.mark.parametrize(
    "choice",
    [
        *("sequential:", "sequential:0", "nearest:0", "nearest:x", "nearest:-1", "nearest:1.5"),
        *("nearest: 2", "nearest:2:3", "nearest:٣", "nearest:1e3"),
    ],
)
def test_numbers_that_are_none_are_refused(choice):
    with pytest.raises(NmfsyncError, match=f"pairs '{choice}': .* whole number of at least 1"):
        select_pairs(choice, random_images(3, 3), ["a", "b"])


@pytest.mark.parametrize("choice", ["", "nearest", "sequential", "near:3", "none.txt", "x" * 300])
def test_a_choice_that_is_none_is_refused(choice):
    with pytest.raises(NmfsyncError, match=f"'{choice}': must be all, sequential:W, nearest:N or"):
        select_pairs(choice, random_images(3, 3), ["a", "b"])


def test_pairs_that_do_not_connect_the_images_are_a_reason_to_warn(tmp_path):
    path = write(tmp_path, "0 1\n2 3\n")
    with pytest.warns(NmfsyncWarning, match="split the images into 3 parts"):
        pairs = select_pairs(str(path), random_images(3, 3, 3, 3, 3), "01234")
    assert pairs.tolist() == [[0, 1], [2, 3]]


def test_only_images_with_features_count_as_parts(tmp_path):
    # Images are connected unless they warn: warnings are errors here.
    path = str(write(tmp_path, "0 1\n"))
    select_pairs(path, random_images(3, 3, 0, 0), "0123")
    select_pairs(path, random_images(3, 0, 0, 0), "0123")
    select_pairs("sequential:1", random_images(0, 0), "01")
    for choice in ("all", "sequential:1", "nearest:1"):
        assert len(select_pairs(choice, [], [])) == 0
    # What an image without features connects is not connected.
    with pytest.warns(NmfsyncWarning, match="into 2 parts"):
        select_pairs("sequential:1", random_images(3, 0, 3), "012")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.jpg b.jpeg", "there is no image 'b.jpeg'; did you mean b.jpg"),
        ("A.JPG b.jpg", "there is no image 'A.JPG'; did you mean a.jpg"),
        ("sub/c.jpg a.jpg", "there is no image 'sub/c.jpg'; did you mean sub/c d.jpg?"),
        ("zzzzzzzz yyyyyyyy", "there is no image 'zzzzzzzz'$"),
        ("a.jpg " + "x" * 10**6, "must contain two image names, got 'a.jpg x{53}…'$"),
        ("a " * 2 * 10**6, "must contain two image names, got '(a ){29}a…'$"),
        ("a.jpg \x1b[31m\u202eb", r"there is no image '\\x1b\[31m\\u202eb'"),
        ("a.jpg b.jpg sub/c d.jpgg", "must contain two image names, .*did you mean sub/c d.jpg"),
    ],
)
def test_a_missing_image_is_named_with_near_ones(tmp_path, line, message):
    path = write(tmp_path, f"a.jpg b.jpg\n{line}\n")
    with pytest.raises(NmfsyncError, match=f"line 2: {message}") as caught:
        read_pairs(path, ["a.jpg", "b.jpg", "sub/c d.jpg"])
    assert len(one_line(caught)) < 300


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(tmp_path, kind):
    path = no_file(tmp_path / "pairs.txt", kind)
    assert f"{path}: " in result_or_line(read_pairs, path, ["a", "b"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_other_encodings_are_named(tmp_path, encoding):
    path = tmp_path / "pairs.txt"
    path.write_bytes("ä.jpg b.jpg\n".encode(encoding))
    assert "not a text file in UTF-8" in result_or_line(read_pairs, path, ["ä.jpg", "b.jpg"])


def test_a_file_that_is_damaged_anywhere(tmp_path):
    path, names = tmp_path / "pairs.txt", ["a.jpg", "b.jpg", "sub/c d.jpg"]
    sound = "\ufeff# two names\na.jpg b.jpg\r\n\nsub/c d.jpg\ta.jpg\n".encode()

    @settings(max_examples=150, derandomize=True, database=None)
    @given(strategies.damaged(sound) | st.binary(max_size=60))
    def check(content):
        path.write_bytes(content)
        pairs = result_or_line(read_pairs, path, names)
        assert isinstance(pairs, str) or (pairs[:, 0] < pairs[:, 1]).all()

    check()
