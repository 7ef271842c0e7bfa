"""Memory grows with the images and matches, not with the pairs of images or of features."""

import resource
import tracemalloc

import numpy as np
import psutil
import pytest

from builders import make_features, matches_of
from growth import FAMILIES, chain
from nmfsync import MultiMatching, NmfsyncError, PairwiseMatches, evaluation, synchronise
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.tracks import compare
from nmfsync.exchange.blocks import choose
from nmfsync.report.figures.matrix import matrix_figure
from nmfsync.run.matches_file import synchronise_file
from nmfsync.synchronisation.calibration import calibrate_by_cycles
from nmfsync.truth.epipolar import check_homographies
from nmfsync.types.truth import Homographies


def peak(work, *arguments) -> int:
    """Return the bytes that Python and NumPy allocate at the peak, without those of kernels."""
    tracemalloc.start()
    try:
        work(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def everything(matches):
    """All that is done with the matches of a file."""
    result = synchronise(matches, "clustersync")
    compare(matches, result)
    compare(matches, choose(result, "none"))
    estimate_confidence(result, calibrate_by_cycles(matches))
    matrix_figure(matches, result, "clustersync", [""] * len(matches.sizes))
    evaluation.fcm(evaluation.MatchErrors(*np.empty((3, 0), int)), matches.sizes)
    list(matches.by_image_pair())
    result.arrays()


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_images_take_less_than_three_times_the_memory(family):
    everything(FAMILIES[family](50))
    sizes = (100, 200) if family == "video" else (1500, 3000)
    small, large = (peak(everything, FAMILIES[family](k)) for k in sizes)
    assert large < 3 * small


def test_a_long_chain_passes_in_little_memory(tmp_path):
    """20,000 images: a table of their pairs would take 400 MB with a byte for each."""
    chain(20_000).save(tmp_path / "in.npz")
    assert peak(synchronise_file, tmp_path / "in.npz", tmp_path / "out.npz") < 1e8
    assert (tmp_path / "out.npz").stat().st_size < 1e6
    with np.load(tmp_path / "out.npz") as file:
        assert not file["universe"].any()


def test_homographies_of_many_images_are_checked_in_little_memory():
    """3,000 images: a table of their pairs takes 72 MB."""
    k = 3_000
    truth = Homographies(np.tile(np.eye(3), (k, 1, 1)), np.tile([10, 10], (k, 1)))
    features = [make_features([[5, 5]])] * k
    assert peak(check_homographies, truth, features, chain(k), [""] * k) < 2e7


def with_little_memory(k) -> int:
    """Return the number of tracks of a chain, found with at most 300 MB more address space."""
    synchronise(chain(10), "clustersync")
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + 300_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        return synchronise(chain(k), "clustersync").universe_size
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_kernels_make_no_table_of_image_pairs_either(in_another_process):
    assert in_another_process(with_little_memory, 20_000) == 1


def test_a_w_that_does_not_fit_is_refused_in_one_line():
    result = MultiMatching(np.zeros(1_000_000, np.int64), np.ones(1_000_000, np.int64))
    with pytest.raises(NmfsyncError, match=r"W of 499,999,500,000 matches .* GB are free"):
        result.W  # noqa: B018


def test_what_is_counted_without_w_is_what_w_says():
    matches = FAMILIES["video"](60)
    result = synchronise(matches, "clustersync")
    listed = PairwiseMatches(result.W, result.sizes)
    assert result.match_count == listed.match_count
    for mine, theirs in zip(
        vars(compare(matches, result)).values(),
        vars(compare(matches, listed)).values(),
        strict=True,
    ):
        assert str(mine) == str(theirs)
    kept = result.W.multiply(matches.W)
    assert (kept != choose(result, "none").W).nnz == 0


def test_old_files_of_results_are_read(tmp_path):
    """Which hold W as well."""
    result = MultiMatching([0, 1, 0, 1, 2], [2, 2, 1])
    listed = PairwiseMatches(result.W, result.sizes)
    np.savez(tmp_path / "old.npz", universe=result.universe, **listed.arrays())
    result.save(tmp_path / "new.npz")
    for name in ("old.npz", "new.npz"):
        assert (PairwiseMatches.load(tmp_path / name).W != listed.W).nnz == 0


def test_too_long_tracks_are_estimated_by_the_matches_of_the_input(monkeypatch):
    matches = matches_of([(0, 1, 0.9), (1, 2, 0.8), (2, 3, 0.7)], [1, 1, 1, 1])
    result = MultiMatching([0, 0, 0, 0], [1, 1, 1, 1])
    whole = estimate_confidence(result, matches)
    monkeypatch.setattr("nmfsync.evaluation.confidence.MOST_TRIPLES", 4**3 - 1)
    part = estimate_confidence(result, matches)
    assert list(zip(part.p.tolist(), part.q.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3)]
    known = {(p, q): value for p, q, value in zip(*whole, strict=True)}
    assert part.probability.tolist() == [known[pair] for pair in [(0, 1), (1, 2), (2, 3)]]
