"""What comes from outside is data, never markup, and can be printed and written everywhere."""

import io
import json
import logging
import os
import subprocess
import sys
import warnings

import matplotlib
import pytest

from nmfsync.cli.streams import open_streams
from nmfsync.errors import NmfsyncWarning, collected_warnings, printable, reason_of
from nmfsync.report.figures.canvas import new_canvas, show_canvas, write_text
from nmfsync.report.figures.style import default_look, name_axes, plain, to_png
from nmfsync.report.page import environment
from nmfsync.scenes.scene import Scene

BYTES = os.fsdecode(b"q\xff")

NAMES = [BYTES, "a[b]$x_1$", "\x1b[31m\n", "中é", "y" * 200]


@pytest.fixture
def named_badly(photographs, tmp_path):
    """A folder of images, all of whose names are hostile."""
    folder = tmp_path / f"[red]{BYTES}\x1b[31mé"
    folder.mkdir()
    for name, image in zip(NAMES[:3], sorted(photographs.iterdir()), strict=True):
        (folder / f"{name}.png").write_bytes(image.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – é 中", "plain – é 中"),
        (BYTES, r"q\xff"),
        ("a\x1b[31m\r\n\x07\x9b", r"a\x1b[31m\r\n\x07\x9b"),
        ("\ud800", r"\ud800"),
        ("abc\u202egpj", r"abc\u202egpj"),
        ("\udcc3\udca9", "é"),  # as a file's name comes under an ASCII locale
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_text_becomes_printable(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown


def test_messages_are_printable():
    assert reason_of(OSError(2, "gone", f"{BYTES}\x1b")) == r"q\xff\x1b: gone"
    assert reason_of(OSError(2, "gone", b"q\xff")) == r"q\xff: gone"
    with collected_warnings() as texts:
        warnings.warn(BYTES, NmfsyncWarning, stacklevel=1)
    assert texts == [r"q\xff"]


def test_names_of_a_scene_are_printable(tmp_path):
    scene = Scene("x", tuple(tmp_path / f"{name}.png" for name in NAMES))
    assert scene.labels == (r"q\xff", "a[b]$x_1$", r"\x1b[31m\n", "中é", "y" * 200)
    assert "".join(scene.names).isprintable()


def test_pages_take_any_text():
    page = environment().from_string("{{ text }}").render(text=f"<b>{BYTES}\x1b")
    assert page == r"&lt;b&gt;q\xff\x1b"


def test_figures_take_any_text(recwarn):
    for name in NAMES:
        figure, axes = show_canvas(new_canvas(80, 40))
        write_text(axes, 5, 20, name, 10)
        name_axes(axes, plain(name))
        assert to_png(figure)
    assert not recwarn.list


def test_figures_look_the_same_for_everybody():
    def draw():
        with default_look():
            figure, axes = show_canvas(new_canvas(60, 40))
            write_text(axes, 5, 20, "abc", 20)
            return to_png(figure)

    with matplotlib.rc_context({"font.size": 30, "font.family": "serif", "savefig.bbox": "tight"}):
        changed = draw()
        assert matplotlib.rcParams["font.size"] == 30
    assert changed == draw()


def test_brackets_and_escapes_are_printed_as_they_are(nmfsync_command, named_badly, tmp_path):
    out = tmp_path / "q[/b]"
    outcome = nmfsync_command(
        "run", named_badly, "--methods", "unionfind", "--features", 60, "--out", out
    )
    assert outcome.code == 0
    name = "images/[red]q__[31mé"
    assert f"{name}: 3 images" in outcome.out
    assert f"Report: {out}/{name}/report.html" in outcome.out
    assert "\x1b" not in outcome.out + outcome.err
    tracks = (out / name / "tracks.csv").read_text(encoding="utf-8")
    assert r"q\xff.png" in tracks
    assert (out / name / "report.html").is_file()


@pytest.mark.parametrize(
    "arguments",
    [["run", "--x\x1b[31m"], ["x\x1b[31m"], ["run", "x\x1b[31m"], ["study", "\x1b[31m"]],
)
def test_wrong_arguments_do_not_reach_the_terminal_raw(nmfsync_command, arguments):
    outcome = nmfsync_command(*arguments)
    assert outcome.code in (1, 2)
    assert r"\x1b[31m" in outcome.err
    assert "\x1b" not in outcome.out + outcome.err


def test_an_ascii_locale_and_the_backend_of_a_notebook(named_badly, tmp_path):
    """Nothing of the environment has to be right."""
    surroundings = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "MPLBACKEND": "module://not_installed_here.backend_inline",
        "MPLCONFIGDIR": "/dev/null/nowhere",
        "XDG_CACHE_HOME": "relative",
        "COLUMNS": "20",
        "TERM": "dumb",
    }
    command = [sys.executable, "-m", "nmfsync", "run", named_badly, "--methods", "unionfind"]
    done = subprocess.run(
        [*command, "--features", "60"],
        cwd=tmp_path,
        env=surroundings,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    folder = tmp_path / "outputs" / "images" / "[red]q__[31mé"
    assert (folder / "report.html").is_file()
    evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["scene"] == "images/[red]q__[31mé"


def test_closed_outputs():
    command = f"{sys.executable} -m nmfsync data list >&- 2>&-"
    assert subprocess.run(command, shell=True, check=False).returncode == 0


def test_what_an_encoding_lacks_is_written_in_plain_letters(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="latin-1"))
    open_streams()
    sys.stdout.write("é – 中 →")
    sys.stdout.flush()
    assert buffer.getvalue() == b"\xe9 - \\u4e2d ->"


def test_matplotlib_is_left_as_it_was():
    assert logging.getLogger("matplotlib").level == logging.NOTSET
