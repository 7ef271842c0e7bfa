"""The documentation is true: its code and commands run, its links and lists are complete.

Commands that need data sets, a network or minutes are read by the command line's own
parser instead of being run. The scripts of the gallery run when the site is built.
"""

import doctest
import re
import shlex
import tomllib
from pathlib import Path
from unittest import mock

import cv2
import numpy as np
import pytest
import typer
from typer.main import get_command

import nmfsync
from colmap_scenes import write_database
from nmfsync import METHODS, evaluation, synthetic
from nmfsync.cli.commands import app

ROOT = Path(__file__).parents[2]

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / name / "README.md" for name in ("datasets", "outputs")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "examples" not in p.parts),
]

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[tuple[str, int, str]]:
    """Language, first line and content of every fenced block."""
    fence = re.compile(rf"^( *)```({'|'.join(languages)})\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
    return [
        (m[2], TEXTS[page][: m.start(3)].count("\n"), m[3]) for m in fence.finditer(TEXTS[page])
    ]


@pytest.fixture
def scratch(tmp_path, monkeypatch, photographs):
    """A folder with what the pages speak of: photographs, matches of other programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "photos").symlink_to(photographs)
    with mock.patch.dict(METHODS):  # what pages add is gone afterwards
        yield tmp_path


@pytest.fixture(scope="module")
def files_of_other_programs(tmp_path_factory):
    """Files called database.db, matches.h5, features.h5 and matches.npz."""
    h5py = pytest.importorskip("h5py")
    folder = tmp_path_factory.mktemp("others")
    # Some are called like the photographs.
    xy = write_database(folder / "database.db", [f"view{v}.png" for v in range(6)])
    matches = nmfsync.PairwiseMatches.from_colmap(folder / "database.db")
    matches.save(folder / "matches.npz")
    with h5py.File(folder / "features.h5", "w") as features:
        for view, positions in enumerate(xy):
            features[f"view{view}.png/keypoints"] = positions
    with h5py.File(folder / "matches.h5", "w") as file:
        for pair in matches.by_image_pair():
            row = [-1] * len(xy[pair.i])
            for a, b in pair.rows.tolist():
                row[a] = b
            file[f"view{pair.i}.png/view{pair.j}.png/matches0"] = row
    return folder


@pytest.fixture
def others(scratch, files_of_other_programs):
    for file in files_of_other_programs.iterdir():
        (scratch / file.name).symlink_to(file)
    (scratch / "photos").unlink()
    (scratch / "photos").mkdir()
    for view in range(6):  # of the size that COLMAP's cameras have
        cv2.imwrite(str(scratch / f"photos/view{view}.png"), np.full((480, 640), 99, np.uint8))


# Python


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python", "pycon")], ids=name_of)
def test_python_blocks_run(page, others):
    """Blocks of a page follow each other, in one scratch folder."""
    names = {}
    for language, line, code in blocks(page, "python", "pycon"):
        if language == "python":
            exec(compile("\n" * line + code, name_of(page), "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(code, names, name_of(page), None, line)
            runner = doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            runner.run(test, clear_globs=False)


# The shell

QUICK = re.compile(r"nmfsync (run$|synchronise (?!.*--match)|data list|data path)")

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Programs of others, whose options are not ours to check.
FOREIGN = {"colmap", "dask", "mkdir", "ray"}


def commands(page: Path) -> list[str]:
    """Commands of the shell blocks, and those that stand in the text."""
    found = []
    for _, _, block in blocks(page, "sh"):
        for line in block.splitlines():
            found += re.split(r" && ", line.partition(" #")[0].strip())
    text = re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)
    for code in re.findall(r"`([^`]+)`", text):
        code = " ".join(code.split())
        if re.match(r"(nmfsync|python -m|pip install|bash) ", code):
            found.append(code)
    return list(dict.fromkeys(command for command in found if command))


COMMANDS = sorted({command for page in PAGES for command in commands(page)})


def read_by_the_command_line(words: list[str]) -> None:
    command, context = get_command(app), None
    names = ["nmfsync"]
    while hasattr(command, "commands"):
        context = typer.Context(command, parent=context, info_name=names[-1])
        names.append(words.pop(0))
        command = command.commands[names[-1]]
    if words:  # the bare name of a command stands for the command
        command.make_context(names[-1], words, parent=context)


@pytest.mark.parametrize("line", COMMANDS)
def test_command_exists_with_these_options(line):
    program, *words = shlex.split(line)
    program = program.removeprefix(".venv/bin/")
    if program in ("python", "python3"):
        assert words.pop(0) == "-m"
        program = words.pop(0)
    if program == "nmfsync":
        read_by_the_command_line(words)
    elif program in ("pip", "venv"):
        for extra in re.findall(r"[a-z]+", "".join(re.findall(r"\[([^…]*)\]", line))):
            assert extra in PYPROJECT["optional-dependencies"]
    elif program in ("pytest", "bash", "sphinx", "ruff", "mypy", "lint-imports"):
        places = [word for word in words if "/" in word or word == "docs"]
        assert all((ROOT / place).exists() for place in places)
    else:
        assert program in FOREIGN


@pytest.mark.parametrize("line", [line for line in COMMANDS if QUICK.match(line)])
def test_command_runs(line, others, nmfsync_command):
    outcome = nmfsync_command(*shlex.split(line)[1:])
    assert outcome.code == 0, outcome.err


# Links and lists


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as Markdown readers make them."""
    headings = re.findall(r"^#+ (.+)$", TEXTS[page], flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.casefold()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```(?!\{).*?```", "", TEXTS[page], flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            # The site's start page is made of README.md.
            source = ROOT / "README.md" if target == ROOT / "docs/index.md" else target
            assert anchor in anchors(source), link


def test_start_page_knows_every_page():
    index = TEXTS[ROOT / "docs/index.md"]
    listed = set(re.findall(r"^[a-z][\w/-]*$", index, flags=re.MULTILINE))
    pages = {p.relative_to(ROOT / "docs").with_suffix("").as_posix() for p in PAGES
             if (ROOT / "docs") in p.parents}  # fmt: skip
    inner = {p for p in pages if p.startswith("api/") and p != "api/index"}
    assert pages - inner - {"index"} == listed - {"examples/index"}


def test_api_reference_is_complete():
    text = "\n".join(t for p, t in TEXTS.items() if p.parent.name == "api")
    described = set(re.findall(r"^\.\. (?:auto\w+|data|module):: (\S+)$", text, flags=re.MULTILINE))
    described = {name.removeprefix("nmfsync.") for name in described}
    for name in [*nmfsync.__all__, *evaluation.__all__, "generate", "ring"]:
        assert name in described, name
    assert synthetic.generate
    assert synthetic.ring


def test_table_of_methods_is_that_of_the_records():
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", TEXTS[ROOT / "docs/methods.md"], flags=re.MULTILINE)
    assert [name for name, _ in rows] == list(METHODS)
    yes = {True: "yes", False: "no"}
    for name, row in rows:
        cells = [cell.strip() for cell in row.split("|")]
        record = METHODS[name]
        assert cells[0] == yes[record.consistent]
        assert cells[1] == yes[record.uses_weights]
        assert cells[2] == yes["universe_size" in record.arguments]
        theta = f"{record.theta:g}" if "theta" in record.arguments else "–"
        if "theta" in record.weighted_options:
            theta += f"; {record.weighted_options['theta']:g} on photographs"
        assert cells[3] == theta
        assert cells[4] == yes[record.effort is not None]


def test_changelog_knows_the_version():
    assert f"## {PYPROJECT['version']} " in TEXTS[ROOT / "CHANGELOG.md"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {PYPROJECT['version']}\n" in citation
