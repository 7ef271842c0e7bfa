"""A run that has nothing to do notices it before it loads anything, and only then."""

import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest

import rendered
from builders import python
from nmfsync import METHODS, MultiMatching, Settings, run_scene, run_scenes
from nmfsync.run import scene as run
from nmfsync.run.prepare import done_before, prepare_scene
from nmfsync.synchronisation.numerics.effort import Effort

QUICK = Settings(methods=("unionfind",), features=40)

HEAVY = ("numba", "scipy", "matplotlib", "jinja2", "nmfsync.run.scene", "nmfsync.features.sift")

pytestmark = pytest.mark.usefixtures("without_report")


def origin(name, settings=QUICK, out="out", data=None) -> str:
    return prepare_scene(name, settings, out, data, None, True).origin


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def oxford(photographs, work):
    """A folder of three images with homographies, and a file that is not read."""
    folder = work / "oxford"
    folder.mkdir()
    for n in range(3):
        shutil.copy(photographs / f"view{n}.png", folder / f"img{n + 1}.png")
    for n, shift in ((2, 12), (3, 25)):
        (folder / f"H1to{n}p").write_text(f"1 0 -{shift}\n0 1 -{shift // 2}\n0 0 1\n")
    return folder


@pytest.fixture
def epfl(work):
    rendered.write_epfl(work / "epfl", rendered.scene())
    for path in (work / "epfl").glob("000[3-9]*"):
        path.unlink()
    return work / "epfl"


def test_a_second_run_loads_nothing_heavy_and_says_the_same(oxford, work):
    program = (
        "import sys\n"
        "from nmfsync.__main__ import main\n"
        "sys.argv[1:] = ['run', 'oxford', 'sample', '--methods', 'unionfind', '--features', '40']\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    first, second = (python("-c", program, cwd=work) for _ in range(2))
    assert first.stdout == second.stdout != ""
    *said, modules = second.stderr.splitlines()
    assert said == []
    assert [name for name in HEAVY if name in modules.split()] == []
    assert set(HEAVY) <= {*first.stderr.splitlines()[-1].split()}


def test_a_run_after_a_run_makes_nothing_again(oxford, monkeypatch):
    first, steps = run_scene(oxford, QUICK, "out"), []
    monkeypatch.setattr(run, "run_prepared", None)
    assert run_scene(oxford, QUICK, "out", progress=steps.append) == first
    assert steps == list(QUICK.steps)  # so that the bar comes to its end


def test_what_a_scene_follows_from_is_noticed(oxford, work):
    seen = [origin(oxford)]
    assert origin(oxford) == seen[0]
    (oxford / "H1to2p").write_text("1 0 -12\n0 1 -7\n0 0 1\n")
    seen.append(origin(oxford))
    cv2.imwrite(str(oxford / "img2.png"), cv2.imread(str(oxford / "img2.png")) // 2)
    seen.append(origin(oxford))
    (oxford / "notes.gif").write_bytes(b"")  # looks like an image that cannot be read
    seen.append(origin(oxford))
    (work / "pairs.txt").write_text("img1.png img2.png\n")
    chosen = replace(QUICK, pairs="pairs.txt")
    seen.append(origin(oxford, chosen))
    (work / "pairs.txt").write_text("img1.png img3.png\n")
    seen.append(origin(oxford, chosen))
    changes = {"seed": 1, "figures": True, "methods": ("spectral",), "geometry": "homography"}
    seen += [origin(oxford, replace(QUICK, **{name: v})) for name, v in changes.items()]
    moved = shutil.copytree(oxford, work / "elsewhere" / "oxford")  # warnings name files
    seen.append(origin(moved, out="out2"))
    assert len(set(seen)) == len(seen)


def test_the_files_that_a_truth_is_read_from_are_noticed(epfl):
    seen = [origin(epfl)]
    camera = epfl / "0001.png.camera"
    camera.write_text(camera.read_text().replace("\n", "0\n", 1))  # the focal length, times ten
    scene = rendered.scene()
    for n, depth in enumerate(scene.depths[:3]):
        np.save(epfl / f"{n:04d}.png.depth.npy", depth)
    seen.append(origin(epfl))
    np.save(epfl / "0002.png.depth.npy", scene.depths[2] * np.float32(1.01))
    seen.append(origin(epfl))
    for n, depth in enumerate(scene.depths[:3]):
        (epfl / f"{n:04d}.png.depth.npy").unlink()
        cv2.imwrite(
            str(epfl / f"{n:04d}.png.depth.png"), np.nan_to_num(1000 * depth).astype(np.uint16)
        )
    seen.append(origin(epfl))
    (epfl / "depth_scale.txt").write_text("0.001")
    seen.append(origin(epfl))
    (epfl / "depth_scale.txt").write_text("0.002")
    seen.append(origin(epfl))
    rendered.write_mesh(epfl / "scene.ply", steps=4)
    seen.append(origin(epfl))
    rendered.write_mesh(epfl / "scene.ply", steps=5)
    seen.append(origin(epfl))
    assert len(set(seen)) == len(seen)


def test_a_changed_truth_reaches_the_report(epfl):
    scene = rendered.scene()
    for n, depth in enumerate(scene.depths[:3]):
        np.save(epfl / f"{n:04d}.png.depth.npy", depth)
    right = run_scene(epfl, QUICK, "out")
    np.save(epfl / "0001.png.depth.npy", scene.depths[1] * np.float32(1.2))
    wrong = run_scene(epfl, QUICK, "out")
    assert wrong.methods["input"].precision["0.01"] < right.methods["input"].precision["0.01"]


def test_another_program_makes_everything_again(oxford, monkeypatch):
    before = origin(oxford)
    monkeypatch.setattr("nmfsync.run.prepare.code_of_pages", lambda: ["another"])
    assert origin(oxford) != before


def test_another_record_of_a_method_is_noticed(oxford, monkeypatch):
    def mine(matches, universe_size, theta, seed):
        return MultiMatching(np.arange(matches.sizes.sum()), matches.sizes)

    monkeypatch.setitem(METHODS, "mine", mine)
    settings = replace(QUICK, methods=("mine",))
    seen = [origin(oxford, settings)]
    for change in ({"label": "Mine"}, {"theta": 0.3}, {"style": "pink"}):
        monkeypatch.setitem(METHODS, "mine", replace(METHODS["mine"], **change))
        seen.append(origin(oxford, settings))
    assert len(set(seen)) == len(seen)


def test_a_method_that_was_left_out_gets_another_chance(oxford, monkeypatch):
    settings = replace(QUICK, methods=("unionfind", "matchals"))
    record, effort = METHODS["matchals"], Effort(1e18, 1e18, "too large")
    monkeypatch.setitem(METHODS, "matchals", replace(record, effort=lambda *given: effort))
    left_out = run_scene(oxford, settings, "out")
    assert "matchals" not in left_out.methods
    prepared = prepare_scene(oxford, settings, "out", None, None, True)
    assert done_before(prepared, None) is None
    monkeypatch.setitem(METHODS, "matchals", record)
    again = run_scene(oxford, settings, "out")
    assert "matchals" in again.methods


def test_a_page_of_a_data_set_is_not_written_again(work):
    batch = run_scenes(["sample"], QUICK, work / "out")
    files = [*(work / "out").rglob("*.*")]
    before = {path: path.stat().st_mtime_ns for path in files if path.is_file()}
    again = run_scenes(["sample"], QUICK, work / "out")
    assert again.evaluations == batch.evaluations
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("option", ["colmap", "hloc"])
def test_files_for_mappers_are_made_again(oxford, work, option):
    pytest.importorskip("pycolmap" if option == "colmap" else "h5py")
    target = work / ("model.db" if option == "colmap" else "hloc")
    settings = replace(QUICK, features=300, geometry="none", **{option: target})
    first = run_scene(oxford, settings, "out")
    page = work / "out/images/oxford/evaluation.json"
    before = page.stat().st_mtime_ns
    shutil.rmtree(target) if option == "hloc" else target.unlink()
    assert run_scene(oxford, settings, "out") == first
    assert target.exists()
    assert page.stat().st_mtime_ns == before
