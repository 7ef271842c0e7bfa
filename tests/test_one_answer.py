"""The same matches and method give the same tracks through every front end."""

import csv
import shutil

import numpy as np
import pytest

from builders import lose_a_file
from nmfsync import (
    METHODS,
    MultiMatching,
    NmfsyncError,
    PairwiseMatches,
    Settings,
    extract_all,
    load_scene,
    match,
    run_scene,
    synchronise,
    synchronise_file,
)
from nmfsync.run import scene as run_module

FEATURES = 40


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """A folder with the finished features and matches of the sample."""
    out = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "write_scene_report", lambda *arguments: None)
        run_scene("sample/astronaut", Settings(methods=("clustersync",), features=FEATURES), out)
    return out / "sample/astronaut/stages"


@pytest.fixture(scope="module")
def matches(stages) -> PairwiseMatches:
    """The weighted matches of the sample."""
    return PairwiseMatches.load(stages / "matches.npz")


def tracks(path) -> list[tuple[str, str, str]]:
    """Rows of a `tracks.csv` without names and positions of images, which .npz files lack."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    number = {name: n for n, name in enumerate(sorted({row["image"] for row in rows}))}
    return [(row["track"], number[row["image"]], row["feature"]) for row in rows]


@pytest.mark.usefixtures("without_report")
@pytest.mark.filterwarnings("ignore:.*see an image twice:nmfsync.errors.NmfsyncWarning")
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("method", [n for n, m in METHODS.items() if not m.needs_descriptors])
def test_one_answer(method, weighted, stages, matches, tmp_path, monkeypatch):
    given = matches if weighted else matches.unweighted()
    assert given.weighted == weighted
    result = synchronise(given, method)

    given.save(tmp_path / "matches.npz")
    done = synchronise_file(tmp_path / "matches.npz", tmp_path / "new.npz", method=method)

    monkeypatch.setattr(run_module, "match", lambda *args, **options: given)
    settings = Settings(methods=(method,), features=FEATURES, ratio=None if weighted else 1.0)
    folder = tmp_path / "sample/astronaut"
    shutil.copytree(stages / "features", folder / "stages/features")
    run_scene("sample/astronaut", settings, tmp_path)
    stored = np.load(folder / f"stages/methods/{method}.npz")

    assert done.result.settings == result.settings
    for name, array in result.arrays().items():
        assert np.array_equal(array, done.result.arrays()[name])
        assert np.array_equal(array, stored[name])
    if isinstance(result, MultiMatching):
        assert tracks(tmp_path / "new.npz.tracks.csv") == tracks(folder / "tracks.csv")


@pytest.mark.usefixtures("without_report")
def test_one_answer_from_descriptors(tmp_path):
    """Whether or not a run finds its matches in the stages, which keep no descriptors."""
    scene = load_scene("sample/astronaut")
    matches = match(extract_all(scene.paths, FEATURES, progress=False), weighted=True)
    result = synchronise(matches, "quickmatch")
    assert len(result.tracks()) > 10

    settings = Settings(methods=("quickmatch",), features=FEATURES)
    methods = tmp_path / "sample/astronaut/stages/methods"
    for _ in range(2):
        run_scene("sample/astronaut", settings, tmp_path)
        stored = np.load(methods / "quickmatch.npz")
        assert np.array_equal(result.universe, stored["universe"])
        shutil.rmtree(methods)
        lose_a_file(tmp_path)

    matches.save(tmp_path / "matches.npz")
    with pytest.raises(NmfsyncError, match=r"^quickmatch needs the descriptors .* or another meth"):
        synchronise_file(tmp_path / "matches.npz", tmp_path / "new.npz", method="quickmatch")
    assert not (tmp_path / "new.npz").exists()
