"""One boundary for readers, one for writers, and what is checked before."""

import os

import pytest

from builders import NO_FILES, no_file, result_or_line
from nmfsync.errors import NmfsyncError, TooLargeError, near_names, shown
from nmfsync.runtime.files import (
    check_memory,
    check_space,
    check_target,
    read_text,
    reading,
    writing,
)


def raising(boundary, error, *arguments):
    with boundary(*arguments):
        raise error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("two\nlines"), "is no mesh (ValueError: two lines)"),
        (KeyError("x"), "is no mesh (KeyError: 'x')"),
        (RecursionError(), "is no mesh (RecursionError)"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error)"),
        (OSError("odd"), "is no mesh (OSError: odd)"),
        (NmfsyncError("is odd"), "is odd"),
        (ValueError("x" * 10**6), "is no mesh (ValueError: " + "x" * 187 + "…)"),
        (
            ValueError("\x1b[31m\0\u202e\ud800"),
            r"is no mesh (ValueError: \x1b[31m\x00\u202e\ud800)",
        ),
    ],
)
def test_every_error_becomes_a_line_that_names_the_file(tmp_path, error, message):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(NmfsyncError) as caught:
        raising(reading, error, path, "is no mesh")
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("boundary", [reading, writing])
def test_some_errors_pass(tmp_path, error, boundary):
    (tmp_path / "file").write_text("")
    with pytest.raises(error):
        raising(boundary, error, tmp_path / "file", *["is no mesh"] * (boundary is reading))


def test_an_error_that_names_the_file_is_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("")
    error = TooLargeError(f"{tmp_path / 'file'}, line 3: too large")
    for boundary, arguments in ((reading, ["is no mesh"]), (writing, [])):
        with pytest.raises(TooLargeError) as caught:
            raising(boundary, error, tmp_path / "file", *arguments)
        assert caught.value is error


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError(28, "No space left on device")])
def test_every_error_of_a_writer_becomes_a_line(error):
    with pytest.raises(NmfsyncError, match=r"^out\.db: cannot be written \(.*(odd|No space left)"):
        raising(writing, error, "out.db")


@pytest.mark.parametrize("kind", NO_FILES)
def test_only_regular_files_are_opened(tmp_path, kind):
    path = no_file(tmp_path / "file", kind)
    assert f"{path}: " in result_or_line(read_text, path)


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "a/" * 3000])
def test_paths_that_cannot_exist(path):
    with pytest.raises(NmfsyncError, match="cannot be read"):
        read_text(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfa\r\nb", "a\r\nb"),
        ("ä".encode("latin-1"), None),
        ("a b".encode("utf-16"), None),
        ("a b".encode("utf-16-le"), None),
        (b"a\0b", None),
    ],
)
def test_encodings(tmp_path, content, text):
    path = tmp_path / "file"
    path.write_bytes(content)
    if text is None:
        assert "not a text file in UTF-8" in result_or_line(read_text, path)
    else:
        assert read_text(path) == text


def test_too_much_memory_or_space_is_refused(tmp_path):
    check_memory(2**27)
    check_space(tmp_path, 1)
    with pytest.raises(NmfsyncError, match=r"needs 1,000,000\.0 GB of memory"):
        check_memory(10**15)
    with pytest.raises(NmfsyncError, match=r"not enough space: 1,000,000,000\.0 MB are needed"):
        check_space(tmp_path, 10**15)


def test_text_from_outside_is_printable_and_short():
    assert shown("Grüße 1") == "Grüße 1"
    assert shown("a\nb\x1b[1m\u202e") == r"a\nb\x1b[1m\u202e"
    assert shown("x" * 10**7) == "x" * 59 + "…"


def test_near_names():
    names = ["img1.jpg", "img2.jpg", "sub/IMG1.JPG", "other.png"]
    assert near_names("img11.jpg", names) == "; did you mean img1.jpg or img2.jpg?"
    assert near_names("SUB/img1.jpg", names).startswith("; did you mean sub/IMG1.JPG")
    assert near_names("zzzzz", names) == ""
    assert near_names("x" * 10**6, names) == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "is a folder; name a file"),
        (os.mkfifo, "is a pipe or a device; name a file"),
        (lambda path: path.touch(), "exists already"),
        (lambda path: path.symlink_to("nowhere"), "exists already"),
        (lambda path: path.symlink_to(path.name), "exists already"),
        (lambda path: path.symlink_to("input"), "is an input file"),
    ],
)
def test_what_is_not_written_over(tmp_path, make, message):
    check_target(tmp_path / "out", [tmp_path / "input"], overwrite=False)
    (tmp_path / "input").touch()
    make(tmp_path / "out")
    with pytest.raises(NmfsyncError, match=f"out: {message}"):
        check_target(tmp_path / "out", [tmp_path / "input"], overwrite=False)
