"""The command line: every command once, and every mistake in one line."""

import os
import re
import resource
import runpy
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from builders import matches_of, noisy
from colmap_scenes import map_images, write_database
from compared import evaluation, figures, write
from nmfsync import PairwiseMatches, synchronise
from nmfsync.matching.verification import verify

QUICK = ("--methods", "nmfsync", "--features", "60")


@pytest.fixture(autouse=True)
def _without_real_data(monkeypatch, tmp_path):
    """No data set is at hand but the sample, and none can be downloaded."""
    monkeypatch.delenv("NMFSYNC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def assert_one_line(outcome, message, code=1):
    assert outcome.code == code
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words", [(), ("run",), ("compare",), ("data",), ("data", "list"), ("data", "fetch"),
              ("data", "verify"), ("data", "path"), ("synchronise",), ("pairs",)],
)  # fmt: skip
def test_every_help_says_what_the_command_does(nmfsync_command, words):
    outcome = nmfsync_command(*words, "--help")
    assert outcome.code == 0
    assert "Usage:" in outcome.out
    assert len(outcome.out.splitlines()) > 5


def test_python_m_is_the_same_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["nmfsync", "--version"])
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # this process goes on
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("nmfsync", run_name="__main__")
    assert not stop.value.code
    assert capsys.readouterr().out.strip() == version("nmfsync")


def test_run_of_the_sample(nmfsync_command):
    outcome = nmfsync_command("run", *QUICK)
    assert outcome.code == 0
    for line in ("sample/astronaut: 6 images", "\n nmfsync ", "outputs/sample/report.html"):
        assert line in outcome.out
    for name in ("report.html", "evaluation.csv", "astronaut/evaluation.json"):
        assert Path("outputs/sample", name).is_file()


def test_number_of_jobs_changes_no_result(nmfsync_command, photographs):
    """Of several targets at once."""
    shutil.copytree(photographs, "others")
    tracks = {}
    for jobs in (1, 2):
        targets = (photographs, "others")
        outcome = nmfsync_command("run", *targets, *QUICK, "--jobs", jobs, "--out", f"j{jobs}")
        assert outcome.code == 0
        folders = [Path(f"j{jobs}/images", name) for name in (photographs.name, "others")]
        assert all((folder / "report.html").is_file() for folder in folders)
        tracks[jobs] = [(folder / "tracks.csv").read_bytes() for folder in folders]
    assert tracks[1] == tracks[2]


def write_images(folder, *names):
    Path(folder).mkdir()
    for name in names:
        noise = np.random.default_rng(0).integers(0, 255, (60, 60), dtype=np.uint8)
        cv2.imwrite(str(Path(folder, name)), noise)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grafiti"], "did you mean graffiti?"),
        (["graffiti/grf"], "did you mean graffiti/graf?"),
        (["nowhere/at/all"], "no data set, scene or folder 'nowhere/at/all'"),
        (["empty"], "empty: no images found; at least two are needed"),
        (["one"], "one: only one image found; at least two are needed"),
        (["sample", "--methods", "nmfsink"], "did you mean nmfsync?"),
        (["sample", "--methods", ","], "no method given"),
        (["sample", "--theta", "1.5"], "theta must be between 0 and 1, got 1.5"),
        (
            ["sample", "--universe", "0"],
            "universe size must be auto or a whole number from 1, got 0",
        ),
        (["sample", "--universe", "lots"], "--universe must be auto or a whole number"),
        (["sample", "--features", "0"], "number of features must be at least 1, got 0"),
        (["sample", "--ratio", "2"], "ratio must be greater than 0 and at most 1, got 2.0"),
        (["sample", "--seed", "-1"], "seed must not be negative, got -1"),
        (["gap"], "H1to3p: no such file, but its image exists"),
        (["singular"], "H1to2p: the homography must be finite and invertible"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(nmfsync_command, arguments, message):
    write_images("empty")
    write_images("one", "a.png")
    write_images("gap", "img1.png", "img2.png", "img3.png")
    Path("gap/H1to2p").write_text("1 0 0\n0 1 0\n0 0 1\n")
    write_images("singular", "img1.png", "img2.png")
    Path("singular/H1to2p").write_text("1 2 0\n2 4 0\n0 0 1\n")
    outcome = nmfsync_command("run", *arguments)
    assert_one_line(outcome, message)
    assert not list(Path().glob("outputs/**/*.*"))


def test_a_damaged_image_is_one_line_and_leaves_no_result(nmfsync_command):
    """Features of the sound image may be kept: they are finished, and the next run uses them.

    Whether they were finished before the other image was read is a matter of time.
    """
    write_images("cut", "a.png", "b.png")
    Path("cut/b.png").write_bytes(Path("cut/b.png").read_bytes()[:1500])
    outcome = nmfsync_command("run", "cut", *QUICK)
    assert_one_line(outcome, "b.png: is damaged or incomplete")
    left = [path for path in Path("outputs").rglob("*") if path.is_file()]
    left.remove(Path("outputs/images/cut/outputs.json"))  # whose folder this is
    assert len(left) <= 1
    assert all(path.match("outputs/images/cut/stages/features/[!.]*.npz") for path in left)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "spark"), "unknown engine 'spark'; known are threads, processes, dask, ray"),
        (("--engine", "dask"), "engine dask needs the address of a scheduler"),
        (("--engine", "processes", "--jobs", "2"), "several jobs work with engine threads only"),
        (("--address", "tcp://127.0.0.1:1"), "runs on this machine and takes no address"),
        (("--pairs", "nearest:0"), "pairs 'nearest:0'"),
        (("--pairs", "no-such-file.txt"), "or an existing file of pairs"),
        (("--verify", "essential"), "geometry must be fundamental or homography, got 'essential'"),
        (("--distance", "-1"), "distance must not be negative"),
    ],
)
def test_a_mistake_about_matching_is_one_line(nmfsync_command, photographs, arguments, message):
    assert_one_line(nmfsync_command("run", photographs, *QUICK, *arguments), message)
    assert not list(Path("outputs").rglob("*.html"))


@pytest.mark.usefixtures("without_report")
def test_some_pairs_of_images(nmfsync_command, photographs):
    Path("pairs.txt").write_text("view0.png view1.png\nview1.png view2.png\n")
    for choice in ("pairs.txt", "sequential:1", "nearest:1"):
        outcome = nmfsync_command("run", photographs, *QUICK, "--pairs", choice, "--distance", 300)
        assert outcome.code == 0
    rows = Path("outputs/images", photographs.name, "stages/matches")
    assert len(list(rows.glob("*.npz"))) == 2  # of the first and the second image


def test_unknown_option_is_a_usage_error(nmfsync_command):
    outcome = nmfsync_command("run", "--option", "1")
    assert outcome.code == 2
    assert "No such option" in outcome.err


def test_one_bad_scene_does_not_stop_the_others(nmfsync_command, photographs):
    write_images("one", "a.png")
    outcome = nmfsync_command("run", "one", photographs, *QUICK)
    assert_one_line(outcome, "one: only one image found")
    assert Path("outputs/images", photographs.name, "report.html").is_file()


def test_images_of_every_kind(nmfsync_command, photographs):
    """Names outside ASCII, EXIF orientation, 16 bits, gray, alpha, upper-case endings."""
    folder = Path("Bilder älter 写真")
    folder.mkdir()
    image = Image.open(photographs / "view0.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(folder / "été.JPG", exif=exif)
    image.convert("L").save(folder / "gray.pgm")
    image.convert("RGBA").save(folder / "alpha.png")
    deep = cv2.imread(str(photographs / "view1.png"), cv2.IMREAD_GRAYSCALE).astype(np.uint16) * 257
    cv2.imwrite(str(folder / "deep.png"), deep)
    (folder / ".DS_Store").write_bytes(b"\0")
    (folder / "notes.txt").write_text("not an image")
    outcome = nmfsync_command("run", folder, *QUICK)
    assert outcome.code == 0
    assert "4 images" in outcome.out
    assert "Warning" not in outcome.out


def test_output_that_cannot_be_written(nmfsync_command, photographs):
    Path("file").write_text("I am no folder")
    outcome = nmfsync_command("run", photographs, *QUICK, "--out", "file/inside")
    assert_one_line(outcome, "Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_output(nmfsync_command, photographs):
    Path("fixed").mkdir(mode=0o500)
    outcome = nmfsync_command("run", photographs, *QUICK, "--out", "fixed")
    assert_one_line(outcome, "Permission denied")


@contextmanager
def small_files():
    """Let no file of this process grow beyond 40 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.skipif(sys.platform != "linux", reason="limits file sizes as Linux does")
def test_full_disk_leaves_no_partial_file(nmfsync_command, photographs, monkeypatch):
    """The stages fit, the pictures do not."""
    with monkeypatch.context() as patch:  # a run without them compiles, which writes large files
        patch.setattr("nmfsync.run.scene.write_scene_report", lambda *arguments: None)
        nmfsync_command("run", photographs, *QUICK, "--out", "before")
    with small_files():
        outcome = nmfsync_command("run", photographs, *QUICK)
    assert_one_line(outcome, "File too large")
    left = [path for path in Path("outputs").rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if path.name.startswith(".")]
    assert not [path for path in left if path.suffix == ".png" and cv2.imread(str(path)) is None]


def test_ctrl_c_says_that_one_can_continue(nmfsync_command, photographs, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("nmfsync.run.scene.synchronise", interrupted)
    outcome = nmfsync_command("run", photographs, *QUICK)
    assert_one_line(outcome, "the same command continues", code=130)
    stages = Path("outputs/images", photographs.name, "stages")
    assert {path.name for path in stages.iterdir()} >= {"features", "matches", "matches.npz"}


def test_offline_download_says_what_to_do(nmfsync_command, monkeypatch):
    monkeypatch.setattr("nmfsync.scenes.download.RETRY_WAITS", ())
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody answers there
    outcome = nmfsync_command("run", "graffiti/graf", *QUICK)
    assert outcome.code == 1
    assert "graffiti/graf could not be downloaded" in outcome.err
    assert "graf.tar.gz" in outcome.err
    assert "Traceback" not in outcome.err


def test_data_commands(nmfsync_command, tmp_path):
    listing = nmfsync_command("data", "list").out
    assert "graffiti" in listing
    assert "bark, bikes, boat, graf, leuven, trees, ubc, wall" in listing
    assert nmfsync_command("data", "path").out.strip().startswith(str(tmp_path / "cache"))
    verified = nmfsync_command("data", "verify", "sample")
    assert verified.code == 0
    assert "img1.jpg" in verified.out
    missing = nmfsync_command("data", "verify", "graffiti/graf")
    assert_one_line(missing, "files of graffiti/graf are missing or differ")
    assert nmfsync_command("data", "fetch", "sample").code == 0  # is there already
    assert_one_line(nmfsync_command("data", "fetch", "graf"), "no data set, scene or folder 'graf'")


@pytest.fixture
def matches_file() -> Path:
    noisy(k=6, d=8, rho=0.8, sigma=0.3, seed=0).save("matches.npz")
    return Path("matches.npz")


def test_synchronise_your_own_matches(nmfsync_command, matches_file):
    outcome = nmfsync_command("synchronise", matches_file, "-o", "out.npz", "--universe", "8")
    assert outcome.code == 0
    assert "kept" in outcome.out
    before, after = PairwiseMatches.load(matches_file), PairwiseMatches.load("out.npz")
    assert after.sizes.tolist() == before.sizes.tolist()
    with np.load("out.npz") as file:
        assert len(file["universe"]) == before.sizes.sum()


def test_synchronise_uses_clustersync_unless_told(nmfsync_command, matches_file):
    matches = PairwiseMatches.load(matches_file)
    matchings = set()
    for options, method, theta in (
        ((), "clustersync", None),
        (("--theta", 1), "clustersync", 1.0),
        (("--method", "nmfsync"), "nmfsync", None),
    ):
        outcome = nmfsync_command("synchronise", matches_file, "-o", "out.npz", "--force", *options)
        assert outcome.code == 0
        expected = synchronise(matches, method, theta=theta)
        with np.load("out.npz") as file:
            assert file["universe"].tolist() == expected.universe.tolist()
        matchings.add(expected.W.nnz)
    assert len(matchings) == 3  # any two of them differ


def test_synchronise_overwrites_only_when_told(nmfsync_command, matches_file):
    Path("out.npz").write_text("precious")
    outcome = nmfsync_command("synchronise", matches_file, "-o", "out.npz")
    assert_one_line(outcome, "out.npz: exists already")
    assert Path("out.npz").read_text() == "precious"
    assert nmfsync_command("synchronise", matches_file, "-o", "out.npz", "--force").code == 0
    outcome = nmfsync_command("synchronise", matches_file, "-o", matches_file, "--force")
    assert_one_line(outcome, "is an input file")


def test_synchronise_names_what_is_wrong(nmfsync_command, matches_file):
    Path("text.npz").write_text("hello")
    np.savez("odd.npz", data=[1.0], indices=[1], indptr=[0, 1, 1], sizes=[2])
    np.savez("sizes.npz", data=[], indices=[], indptr=[0, 0, 0], sizes=[2, 3])
    cases = [
        (["absent.npz", "-o", "out.npz"], "absent.npz: no such file"),
        (["text.npz", "-o", "out.npz"], "text.npz: not a matches file"),
        (["odd.npz", "-o", "out.npz"], "odd.npz: features 0 and 1 match, but both are in image 0"),
        (["sizes.npz", "-o", "out.npz"], "W is 2 × 2, but the sizes add up to 5"),
        ([matches_file, "-o", "out.txt"], "must end in .npz"),
        ([matches_file, "-o", "out.npz", "--method", "x"], "unknown method 'x'"),
    ]
    for arguments, message in cases:
        assert_one_line(nmfsync_command("synchronise", *arguments), message)
    assert not Path("out.npz").exists()


@pytest.fixture
def colmap_file() -> Path:
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    write_database("database.db")
    return Path("database.db")


def left_in(folder="."):
    return sorted(path.name for path in Path(folder).iterdir() if path.name != "cache")


def test_synchronise_a_colmap_database(nmfsync_command, colmap_file):
    before = colmap_file.read_bytes()
    outcome = nmfsync_command("synchronise", colmap_file, "-o", "new/database.sync.db")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert colmap_file.read_bytes() == before
    assert left_in() == ["database.db", "new"]
    assert left_in("new") == [
        "database.sync.db", "database.sync.db.report.html", "database.sync.db.tracks.csv",
    ]  # fmt: skip
    (model,) = map_images("new/database.sync.db", "new")
    assert model.num_reg_images() == 6

    matches = PairwiseMatches.from_colmap(colmap_file)
    result = synchronise(matches)
    was, now = (M.W.astype(bool) for M in (matches, result))
    m = was.shape[0]
    total, after, kept = ((W.nnz - m) // 2 for W in (was, now, was.multiply(now)))
    assert after > kept
    assert f"{kept:,} kept, {total - kept:,} removed, 0 added" in outcome.out
    assert f"{after - kept:,} more matches, which link features through others" in outcome.out
    written = PairwiseMatches.from_colmap("new/database.sync.db", verified=False).W.astype(bool)
    assert (written != was.multiply(now)).nnz == 0
    assert "6 images, 1,920 features, 15 pairs of images with matches" in outcome.out
    assert "COLMAP's verification keeps" in outcome.out

    lines = Path("new/database.sync.db.tracks.csv").read_text().splitlines()
    assert lines[0] == "track,image,feature,x,y,estimated_precision"
    assert len(lines) - 1 == sum(map(len, result.tracks()))
    image, feature = result.tracks()[0][1]
    x, y = matches.source.xy()[image][feature]  # the stored position less half a pixel
    assert lines[2].startswith(f"0,view{image}.jpg,{feature},{x:.3f},{y:.3f},0.")

    page = Path("new/database.sync.db.report.html").read_text()
    sentence = f"Of the {total:,} matches of database.db, {kept:,} were kept"
    for text in (sentence, "inconsistent tracks", "data:image/png;base64,"):
        assert text in page
    assert 'src="http' not in page


def test_synchronise_counts_inconsistent_tracks(nmfsync_command):
    """Feature 0 and feature 1 of image 0 are connected through images 1 and 2."""
    matches_of([(0, 2), (2, 4), (1, 4), (3, 5)], [2, 2, 2]).save("m.npz")
    outcome = nmfsync_command("synchronise", "m.npz", "-o", "out.npz", "--method", "unionfind")
    rows = [line.replace("│", " ").split() for line in outcome.out.splitlines() if "│" in line]
    assert rows.pop(1)[-1] == "%"  # estimated precision
    assert [row[-2:] for row in rows] == [
        ["4", "1"],  # matches
        ["1", "1"],  # tracks
        ["2.00", "2.00"],  # mean track length
        ["1", "0"],  # inconsistent tracks
        ["4", "0"],  # features in inconsistent tracks
        ["0", "4"],  # features without a match
    ]
    assert "1 kept, 3 removed, 0 added" in outcome.out
    rows = [row.rpartition(",") for row in Path("out.npz.tracks.csv").read_text().splitlines()[1:]]
    assert [row for row, _, _ in rows] == ["0,1,1,nan,nan", "0,2,1,nan,nan"]
    assert all(0 < float(estimate) < 0.5 for _, _, estimate in rows)  # contradicted by the others
    kept = nmfsync_command("synchronise", "m.npz", "-o", "in/out.npz", "--method", "matcheig",
                           "--universe", 6)  # fmt: skip
    rows = [line.replace("│", " ").split() for line in kept.out.splitlines() if "│" in line]
    assert ["inconsistent", "tracks", "1", "1"] in rows


def test_synchronise_says_how_right_the_result_is(nmfsync_command):
    """By the weights of the input. Ten features an image; those of image 0 match all others."""
    p, q, weights = np.tile(np.arange(10), 2), np.arange(10, 30), np.repeat([0.9, 0.7], 10)
    PairwiseMatches.from_entries(p, q, [10, 10, 10], weights).save("m.npz")
    outcome = nmfsync_command("synchronise", "m.npz", "-o", "o.npz", "--method", "matcheig")
    assert "estimated from the weights of the input" in outcome.out
    assert "Doubtful pairs of images" in outcome.out
    assert "  0 and 2: 70.0 % of 10 matches" in outcome.out


def test_synchronise_estimates_nothing_without_cycles(nmfsync_command):
    """Image 0 matches image 1, and image 1 matches image 2."""
    matches_of([(0, 2), (1, 3), (2, 4), (3, 5)], [2, 2, 2]).save("m.npz")
    outcome = nmfsync_command("synchronise", "m.npz", "-o", "out.npz")
    assert "No three images match each other" in outcome.out
    assert "estimated from" not in outcome.out
    assert "Doubtful" not in outcome.out
    matches_of([(0, 2), (2, 4), (0, 4)], [2, 2, 2]).save("m.npz")
    outcome = nmfsync_command("synchronise", "m.npz", "-o", "out.npz", "--force")
    assert "matches of the result are right (estimated from cycles)" in outcome.out


def test_synchronise_matches_of_hloc(nmfsync_command):
    h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")
    names = ["a.jpg", "b/c.jpg", "d.jpg"]
    with h5py.File("features.h5", "w") as file:
        for n, name in enumerate(names):
            file[f"{name}/keypoints"] = np.array([[n, 0.25], [n, 1], [n, 2]], np.float32)
    with h5py.File("matches.odd", "w") as file:  # the content decides, not the name
        for key in ("a.jpg/b-c.jpg", "b-c.jpg/d.jpg", "a.jpg/d.jpg"):
            file[f"{key}/matches0"] = np.array([0, 1, -1], np.int16)
    needs = nmfsync_command("synchronise", "matches.odd", "-o", "out.h5")
    assert_one_line(
        needs,
        "matches.odd: an HDF5 file; name the file of features that belongs to it with --features",
    )
    outcome = nmfsync_command(
        "synchronise", "matches.odd", "--features", "features.h5", "-o", "out.h5"
    )
    assert outcome.code == 0, outcome.err
    assert "6 kept, 0 removed, 0 added" in outcome.out
    assert "not in the file" not in outcome.out
    assert Path("out.h5.tracks.csv").read_text().splitlines()[1:4] == [
        "0,a.jpg,0,0.000,0.250,0.999", "0,b/c.jpg,0,1.000,0.250,0.999",
        "0,d.jpg,0,2.000,0.250,0.999",
    ]  # fmt: skip
    with h5py.File("out.h5") as file:
        assert file["a.jpg/b-c.jpg/matches0"][:].tolist() == [0, 1, -1]


def test_synchronise_overwrites_nothing_of_another_run(nmfsync_command, matches_file):
    for name in ("out.npz.tracks.csv", "out.npz.report.html"):
        Path(name).write_text("precious")
        outcome = nmfsync_command("synchronise", matches_file, "-o", "out.npz")
        assert_one_line(outcome, f"{name}: exists already")
        assert left_in() == ["matches.npz", name]
        Path(name).unlink()


def test_synchronise_gives_every_output_names_of_its_own(nmfsync_command, matches_file):
    noisy(k=4, d=5, rho=0.8, sigma=0.3, seed=1).save("others.npz")
    written = {}
    for name, source in (("a.npz", matches_file), ("a.b.npz", "others.npz")):
        assert nmfsync_command("synchronise", source, "-o", f"new/{name}").code == 0
        ends = ("", ".report.html", ".tracks.csv")
        written |= {name + end: Path("new", name + end).read_bytes() for end in ends}
    assert nmfsync_command("synchronise", "others.npz", "-o", "new/c.npz", "--force").code == 0
    assert {name: Path("new", name).read_bytes() for name in written} == written
    assert left_in("new") == sorted([*written, "c.npz", "c.npz.report.html", "c.npz.tracks.csv"])


def test_synchronise_overwrites_nothing_that_came_in_the_meantime(
    nmfsync_command, matches_file, monkeypatch
):
    def slow(*arguments, **options):
        Path("out.npz").write_text("of a faster run")
        return synchronise(*arguments, **options)

    monkeypatch.setattr("nmfsync.run.matches_file.synchronise", slow)
    assert_one_line(nmfsync_command("synchronise", matches_file, "-o", "out.npz"), "exists already")
    assert left_in() == ["matches.npz", "out.npz"]
    assert Path("out.npz").read_text() == "of a faster run"


def test_synchronise_finishes_what_a_killed_run_had_ready(nmfsync_command, matches_file):
    pending = Path(".out.npz.pending")
    pending.mkdir()
    (pending / "out.npz").write_text("finished")
    (pending / ".plan.json").write_text('{"new": ["out.npz"], "old": ["out.npz.tracks.csv"]}')
    assert_one_line(nmfsync_command("synchronise", matches_file, "-o", "out.npz"), "exists already")
    assert Path("out.npz").read_text() == "finished"
    assert left_in() == ["matches.npz", "out.npz"]


def test_synchronise_has_no_tracks_of_inconsistent_results(nmfsync_command, matches_file):
    nmfsync_command("synchronise", matches_file, "-o", "out.npz")
    assert "out.npz.tracks.csv" in left_in()
    nmfsync_command("synchronise", matches_file, "-o", "out.npz", "--force",
                    "--method", "matcheig")  # fmt: skip
    assert left_in() == ["matches.npz", "out.npz", "out.npz.report.html"]


def test_synchronise_checks_names_and_formats(nmfsync_command, colmap_file, matches_file):
    cases = [
        ([colmap_file, "-o", "out.npz"], "must end in .db: database.db is a COLMAP database"),
        ([colmap_file, "-o", colmap_file, "--force"], "database.db: is an input file"),
        (
            [colmap_file, "-o", "out.db", "--features", "x.h5"],
            "--features is for HDF5 files of hloc only",
        ),
        ([".", "-o", "out.db"], "is a folder"),
    ]
    for arguments, message in cases:
        assert_one_line(nmfsync_command("synchronise", *arguments), message)
    matches_file.rename("matches.db")
    assert_one_line(
        nmfsync_command("synchronise", "matches.db", "-o", "out.db"), "must end in .npz"
    )
    assert left_in() == ["database.db", "matches.db"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("where", ["synchronise", "write_change_report", "write_source_tracks"])
def test_synchronise_leaves_nothing_half_written(
    nmfsync_command, colmap_file, monkeypatch, fault, where
):
    def fail(*args, **kwargs):
        raise fault

    monkeypatch.setattr(f"nmfsync.run.matches_file.{where}", fail)
    outcome = nmfsync_command("synchronise", colmap_file, "-o", "out.db")
    if fault is KeyboardInterrupt:
        assert_one_line(outcome, "Interrupted; nothing was written", code=130)
    else:
        assert_one_line(outcome, "No space left on device")
    assert left_in() == ["database.db"]


def test_synchronise_says_what_was_dropped(nmfsync_command, colmap_file):
    pycolmap = pytest.importorskip("pycolmap")
    database = pycolmap.Database.open(colmap_file)
    database.delete_matches(1, 2)
    database.write_matches(1, 2, np.array([[n, 0] for n in range(50)], np.uint32))
    database.close()
    outcome = nmfsync_command("synchronise", colmap_file, "-o", "out.db")
    assert_one_line(outcome, "Warning: database.db: 49 of 4,250 rows of matches dropped", code=0)
    assert "49 of 4,250 rows" in Path("out.db.report.html").read_text()


def test_synchronise_with_added_matches(nmfsync_command):
    """All 300 points are in images 0, 1 and 2, but 20 are not matched between 0 and 1."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    write_database("database.db", pairs=[(0, 2), (1, 2), (2, 3)], wrong=0)
    database = pycolmap.Database.open("database.db")
    database.write_matches(1, 2, np.column_stack([np.arange(20, 300)] * 2).astype(np.uint32))
    database.close()
    cases = [  # added, left out, pairs of images
        ((), 0, 620, 4),
        (("--added", "none"), 0, 620, 4),
        (("--added", "matched"), 20, 600, 4),
        (("--added", "all"), 620, 0, 6),
    ]
    for n, (options, added, left, pairs) in enumerate(cases):
        outcome = nmfsync_command("synchronise", "database.db", "-o", f"{n}/out.db",
                                  "--method", "unionfind", *options)  # fmt: skip
        assert outcome.code == 0, outcome.err
        assert f"1,180 kept, 0 removed, {added} added" in outcome.out
        assert (f"{left} more matches, which link features" in outcome.out) == bool(left)
        elsewhere = "600 of the matches added are between images that had none."
        assert (elsewhere in outcome.out) == (elsewhere in report(n)) == (pairs == 6)
        assert f"of {pairs} pairs." in outcome.out
        assert f"; {added} were added." in report(n)
        written = PairwiseMatches.from_colmap(f"{n}/out.db", verified=False)
        assert (written.W.nnz - written.W.shape[0]) // 2 == 1180 + added
    assert len({Path(f"{n}/out.db.tracks.csv").read_bytes() for n in range(4)}) == 1


def report(folder):
    return Path(str(folder), "out.db.report.html").read_text()


@pytest.mark.parametrize("file", ["database.db", "matches.npz"])
def test_synchronise_checks_added_before_it_starts(
    nmfsync_command, colmap_file, matches_file, monkeypatch, file
):
    monkeypatch.setattr("nmfsync.run.matches_file.synchronise", None)
    outcome = nmfsync_command("synchronise", file, "-o", f"out{Path(file).suffix}",
                              "--added", "some")  # fmt: skip
    assert_one_line(outcome, "added matches: must be none, matched, all, not 'some'")
    assert left_in() == ["database.db", "matches.npz"]


def test_synchronise_verifies_a_colmap_database(nmfsync_command):
    """Its raw matches are taken, though COLMAP verified one pair."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    write_database("database.db", wrong=0.4)
    database = pycolmap.Database.open("database.db")
    geometry = pycolmap.TwoViewGeometry()
    geometry.config, geometry.F = pycolmap.TwoViewGeometryConfiguration.UNCALIBRATED, np.eye(3)
    geometry.inlier_matches = np.column_stack([np.arange(30)] * 2).astype(np.uint32)
    database.write_two_view_geometry(1, 2, geometry)
    database.close()
    outcome = nmfsync_command("synchronise", "database.db", "-o", "new/out.db",
                              "--verify", "fundamental")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "15 pairs of images with matches" in outcome.out
    assert "COLMAP's verification" not in outcome.out  # there is none

    raw = PairwiseMatches.from_colmap("database.db", verified=False)
    verified = verify(raw, raw.source.xy(), progress=False)
    result = synchronise(verified)
    total = (raw.W.nnz - raw.W.shape[0]) // 2
    expected = verified.W.astype(bool).multiply(result.W.astype(bool))
    kept = (expected.nnz - expected.shape[0]) // 2
    assert f"{kept:,} kept, {total - kept:,} removed, 0 added" in outcome.out
    for table in (False, True):
        written = PairwiseMatches.from_colmap("new/out.db", verified=table)
        assert (written.W.astype(bool) != expected).nnz == 0
    before, after = share_of_right_matches(raw), share_of_right_matches(written)
    assert before == pytest.approx(0.6, abs=0.02)
    assert after > 0.99
    # Verifying does more than leave to synchronise what is wrong.
    assert (synchronise(raw).W.astype(bool).multiply(raw.W.astype(bool)) != expected).nnz > 0
    (model,) = map_images("new/out.db", "new")
    assert model.num_reg_images() == 6
    assert model.compute_mean_reprojection_error() < 0.5


def share_of_right_matches(matches):
    """Tell right matches by the number of the features, which is the same in all views."""
    p, q = matches.W.tocoo().coords
    feature = np.arange(len(matches.image_of)) - matches.offsets[matches.image_of]
    return (feature[p] == feature[q])[p != q].mean()


@pytest.fixture
def hloc_files() -> list[str]:
    """Two images from one place: 40 matches of the same position, and 20 of any."""
    h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 600, (60, 2)).astype(np.float32)
    with h5py.File("features.h5", "w") as file:
        for name in ("a.jpg", "b.jpg"):
            file[f"{name}/keypoints"] = xy
    with h5py.File("matches.h5", "w") as file:
        second = np.append(np.arange(40), np.roll(np.arange(40, 60), 7))
        file["a.jpg/b.jpg/matches0"] = second.astype(np.int32)
    return ["matches.h5", "--features", "features.h5"]


@pytest.mark.parametrize("model", ["fundamental", "homography"])
def test_synchronise_verifies_matches_of_hloc(nmfsync_command, hloc_files, model):
    matched = {}
    for name, options in (("as-is", ()), ("verified", ("--verify", model))):
        outcome = nmfsync_command("synchronise", *hloc_files, "-o", f"{name}/out.h5", *options)
        assert outcome.code == 0, outcome.err
        written = PairwiseMatches.from_hloc(f"{name}/out.h5", "features.h5")
        p, q = written.W[:60, 60:].tocoo().coords
        matched[name] = dict(zip(p.tolist(), q.tolist(), strict=True))
    assert len(matched["as-is"]) == 60
    right = {n: n for n in range(40)}
    assert right.items() <= matched["verified"].items()
    assert len(matched["verified"]) < 45  # chance puts some near their epipolar lines
    matches = PairwiseMatches.from_hloc("matches.h5", "features.h5")
    expected = verify(matches, matches.source.xy(), model, progress=False)
    assert (written.W.astype(bool) != expected.W.astype(bool)).nnz == 0


def test_synchronise_if_nothing_passes_the_verification(nmfsync_command, hloc_files):
    h5py = pytest.importorskip("h5py")
    with h5py.File("matches.h5", "r+") as file:
        file["a.jpg/b.jpg/matches0"][:] = np.random.default_rng(1).permutation(60)
    outcome = nmfsync_command("synchronise", *hloc_files, "-o", "out.h5", "--verify", "homography")
    assert_one_line(outcome, "Warning: no pair of images passed the verification", code=0)
    assert "0 kept, 60 removed, 0 added" in outcome.out


def test_synchronise_names_what_is_wrong_with_verify(nmfsync_command, hloc_files, matches_file):
    before = left_in()
    cases = [
        ([matches_file, "-o", "out.npz", "--verify", "fundamental"],
         "an .npz file has no positions"),
        ([*hloc_files, "-o", "out.h5", "--verify", "essential"],
         "geometry must be fundamental or homography, got 'essential'"),
    ]  # fmt: skip
    for arguments, message in cases:
        assert_one_line(nmfsync_command("synchronise", *arguments), message)
        assert left_in() == before


def test_study_command(nmfsync_command, tmp_path):
    outcome = nmfsync_command("study", "initialisation", "--samples", 1, "--out", tmp_path)
    assert outcome.code == 0
    assert "rotated (SBRA) has a lower gt-error than positive part X₊" in outcome.out
    folder = tmp_path / "studies/initialisation"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "figure.pdf", "figure.png", "outputs.json", "report.html", "results.csv", "samples.jsonl",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown study 'nonsense'; there are synthetic, sensitivity"),
        (["synthetic", "--samples", "0"], "number of samples must be at least 1, got 0"),
        (["landmarks"], "CMU VASC"),
    ],
)
def test_mistakes_about_studies_are_one_line(nmfsync_command, tmp_path, arguments, message):
    outcome = nmfsync_command("study", *arguments, "--out", tmp_path, "--jobs", 1)
    assert_one_line(outcome, message)
    assert not list(tmp_path.rglob("*.*"))


def test_too_little_memory_is_said_before_the_libraries_abort():
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))

    command = [sys.executable, "-m", "nmfsync", "data", "list"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: 1.0 GB of memory are allowed (ulimit -v)")
    assert done.stderr.count("\n") == 1


def test_compare_prints_what_differs_in_80_columns(nmfsync_command):
    for label, gain in (("a", 0.0), ("b", 0.05)):
        write(
            Path(label),
            *(
                evaluation(f"set/{n}", {"features": label}, input=figures(0.3),
                           clustersync=figures(0.2 + gain + n / 100 + gain * n / 10))
                for n in range(4)
            ),
        )  # fmt: skip
    outcome = nmfsync_command("compare", "a", "b")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.startswith("On 4 scenes, b differs from a: FCM at 1 % is higher with Cl")
    assert "features: a | b" in outcome.out
    assert re.search(r"clustersync +\+5\.8\*", outcome.out)
    assert "\x1b" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out.endswith("Report: compare.html\n")
    assert Path("compare.html").is_file()
    words = ("compare", "a/set/0", "--method", "input, clustersync", "-o", "methods.html")
    outcome = nmfsync_command(*words)
    assert outcome.code == 0
    assert "ClusterSync against input" in outcome.out


def test_compare_ends_with_one_line(nmfsync_command):
    write(Path("a"), evaluation())
    Path("mine.html").write_text("mine")
    for words, message in (
        (("a", "a"), "is in both a and a"),
        (("a",), "one run alone is compared with nothing"),
        (("a", "none"), "none: no such folder or file"),
        (("a", "--methods", "input,clustersync", "-o", "mine.html"), "exists already"),
        (("a", "--methods", "input,clustersink"), "did you mean clustersync"),
    ):
        assert_one_line(nmfsync_command("compare", *words), message)
    assert Path("mine.html").read_text() == "mine"
    assert not Path("compare.html").exists()
