"""Progress bars: when they appear, what they count, and that they change and leave nothing."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod

import numpy as np
import pytest
from tqdm import tqdm

from builders import make_features, noisy, with_descriptors
from nmfsync import METHODS, Settings, run_scene, synchronise
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.evaluation.errors import epipolar_errors, match_errors
from nmfsync.evaluation.measure import evaluate
from nmfsync.features.extract import extract_all
from nmfsync.runtime import progress
from nmfsync.synchronisation.numerics import eigenpairs as eigen
from nmfsync.types.camera import Camera
from nmfsync.types.truth import Homographies

pytestmark = pytest.mark.filterwarnings("ignore:.*see an image twice:nmfsync.NmfsyncWarning")

# What every method shows, one after the other, and whether there is a total.
PHASES = {
    "clustersync": [("Clustering", False)],
    "nmfsync": [
        ("Eigenvectors", True),
        ("Rotating", True),
        ("Factorising", False),
        ("Rotating", True),
        ("Assigning", True),
    ],
    "spectral": [("Eigenvectors", True), ("Gathering", True)],
    "matcheig": [("Eigenvectors", True), ("Rounding", True)],
    "matchals": [("Recovering", False)],
    "clear": [("Eigenvectors", True), ("Pivots", True), ("Assigning", True), ("Components", False)],
    "unionfind": [],  # is done in no time
    "quickmatch": [("Densities", True), ("Parents", True)],
}
EVALUATED = [("Errors", True), ("Cycle error", True), ("Epipolar distances", True)]


class Terminal(io.StringIO):
    """A terminal that remembers everything."""

    def isatty(self):
        return True

    def screen(self):
        """Lines that can be seen in the end."""
        lines, row, column = [""], 0, 0
        for sign in self.getvalue().replace("\x1b[A", "\0"):
            if sign == "\0":
                row -= 1
            elif sign == "\n":
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            elif sign == "\r":
                column = 0
            else:
                lines[row] = lines[row][:column].ljust(column) + sign + lines[row][column + 1 :]
                column += 1
        return [line.rstrip() for line in lines]


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self):
        self.now, self.wakes_at = 0.0, {}  # of every event that is waited for
        self.changed = threading.Condition()

    def time(self):
        return self.now

    def advance(self, seconds):
        """Let time pass, and the thread of the bar draw what it has to until then."""
        with self.changed:
            assert self.changed.wait_for(self.is_asleep, 120)
            self.now += seconds
            self.changed.notify_all()
            assert self.changed.wait_for(self.is_asleep, 120)

    def is_asleep(self):
        return bool(self.wakes_at) and min(self.wakes_at.values()) > self.now

    def event(self):
        """Return a `threading.Event` that waits by this clock."""
        return _Event(self)


class _Event:
    def __init__(self, clock):
        self.clock, self.is_set = clock, False

    def set(self):
        with self.clock.changed:
            self.is_set = True
            self.clock.changed.notify_all()

    def wait(self, seconds):
        clock = self.clock
        with clock.changed:
            clock.wakes_at[self] = end = clock.now + seconds
            clock.changed.notify_all()
            clock.changed.wait_for(lambda: self.is_set or clock.now >= end)
            del clock.wakes_at[self]
            return self.is_set


@pytest.fixture
def clock(monkeypatch):
    """Let the time of all bars stand still."""
    clock = Clock()
    monkeypatch.setattr("tqdm.std.time", clock.time)
    monkeypatch.setattr(progress, "Event", clock.event)
    return clock


@pytest.fixture
def terminal(monkeypatch):
    """Let bars go to a terminal (pytest exchanges stderr itself before every test)."""
    stream = Terminal()
    monkeypatch.setattr(tqdm, "__init__", partialmethod(tqdm.__init__, file=stream))
    return stream


@pytest.fixture
def at_once(monkeypatch, clock):
    """Let bars appear without a delay, and no time pass."""
    monkeypatch.setattr(progress, "DELAY", 0.0)


@pytest.fixture
def closed(monkeypatch):
    """List the phases that have shown a bar: description, steps done, total."""
    bars = []
    close = tqdm.close

    def remember(bar):
        if not bar.disable and bar.leave is False:  # as only a phase leaves nothing
            bars.append((bar.desc, bar.n, bar.total))
        close(bar)

    monkeypatch.setattr(tqdm, "close", remember)
    return bars


@pytest.fixture(scope="module")
def matches():
    return with_descriptors(noisy(k=8, d=12, rho=0.7, sigma=0.4, seed=0))


# --- bars


def test_a_phase_appears_late_only(terminal, clock):
    with progress.showing(True), progress.phase(3, "Thinking", "idea") as shown:
        shown.update(3)
    assert terminal.getvalue() == ""


def test_a_phase_appears_and_its_clock_goes_on_while_a_step_takes_long(terminal, clock):
    with progress.showing(True), progress.phase(3, "Thinking", "idea") as bar:
        clock.advance(1.9)
        assert terminal.getvalue() == ""
        for seconds in (2, 3, 4):
            clock.advance(1)
            assert f"0/3 [00:0{seconds}" in terminal.screen()[0]
    assert terminal.screen() == [""]
    assert bar.disable
    assert not clock.wakes_at  # nobody waits to draw it again


def test_without_a_total_none_is_made_up(terminal, at_once):
    with progress.showing(True), progress.phase(None, "Thinking", "idea") as shown:
        assert terminal.screen()[0].startswith("Thinking: idea 0 [00:00, ?idea/s]")
        shown.update(7)
        shown.refresh()
        assert terminal.screen()[0].startswith("Thinking: idea 7 [00:00, ")
        assert "%" not in terminal.getvalue()


def test_the_bar_above_stays(terminal, at_once):
    with progress.bar(5, "Steps", "step") as above:
        with progress.showing(True), progress.phase(3, "Thinking", "idea") as shown:
            shown.update(2)
            shown.refresh()
            lines = terminal.screen()
            assert lines[0].startswith("Steps:   0%")
            assert lines[1].startswith("Thinking:  67%")
        assert terminal.screen() == [lines[0], ""]
        above.update(5)
    assert terminal.screen()[0].startswith("Steps: 100%")


def test_only_phases_inside_show_bars(closed, terminal, at_once):
    def think():
        with progress.phase(3, "Thinking", "idea") as shown:
            shown.update(3)

    think()
    with pytest.raises(KeyError), progress.showing(True):
        raise KeyError
    think()
    with progress.showing(True), progress.showing(False):
        think()
    with progress.showing(True), ThreadPoolExecutor(1) as pool:
        pool.submit(think).result()
    assert (closed, terminal.getvalue()) == ([], "")
    with progress.showing(True):
        think()
    assert closed == [("Thinking", 3, 3)]


def test_a_bar_begins_with_what_was_done_before(terminal):
    with progress.bar(4, "Steps", "step", initial=3):
        assert "75%" in terminal.screen()[0]
    with progress.bar(4, "Nothing", "step", progress=False):
        assert "Nothing" not in terminal.getvalue()


def test_features_in_the_cache_are_done_before(terminal, photographs, tmp_path):
    images = sorted(photographs.iterdir())
    extract_all(images[:2], 20, progress=False, cache=tmp_path)
    extract_all(images, 20, cache=tmp_path)
    assert "Features:  67%" in terminal.getvalue()
    assert "Features:   0%" not in terminal.getvalue()
    assert "Features: 100%" in terminal.screen()[0]


# --- synchronisation


def test_every_method_is_told_of_here():
    assert set(PHASES) == set(METHODS)


@pytest.mark.parametrize("method", PHASES)
def test_every_method_shows_what_it_does(matches, method, terminal, at_once, closed):
    expected = synchronise(matches, method, 12)
    assert (closed, terminal.getvalue()) == ([], "")
    result = synchronise(matches, method, 12, progress=True)
    assert [(name, total is not None) for name, _, total in closed] == PHASES[method]
    for name, done, total in closed:
        assert f"{name}: " in terminal.getvalue()
        assert done > 0
        if name != "Rotating":  # which may need fewer columns
            assert done == total or total is None
    assert set(terminal.screen()) == {""}
    assert (result.W != expected.W).nnz == 0
    assert np.array_equal(result.W.data, expected.W.data)


@pytest.mark.parametrize("method", PHASES)
def test_no_bar_without_a_terminal(matches, method, at_once, capsys):
    synchronise(matches, method, 12, progress=True)
    assert capsys.readouterr().err == ""


def test_what_is_done_soon_shows_no_bar(matches, terminal, clock):
    for method in METHODS:
        synchronise(matches, method, 12, progress=True)
    assert terminal.getvalue() == ""


def test_a_large_component_shows_its_rounds(matches, terminal, at_once, closed, monkeypatch):
    monkeypatch.setattr(eigen, "DENSE_SIZE", 5)
    synchronise(matches, "spectral", 2, progress=True)
    rounds = [(done, total) for name, done, total in closed if name == "Eigenvectors"]
    assert rounds[-1][0] > 0
    assert rounds[-1][1] is None


def test_a_symmetric_factorisation_shows_its_updates(matches, terminal, at_once, closed):
    synchronise(matches, "nmfsync", 12, progress=True, factor="symmetric")
    assert [done > 1 for name, done, _ in closed if name == "Factorising"] == [True]


def test_complete_permutations_show_their_images(terminal, at_once, closed):
    matches = noisy(k=5, d=6, rho=1.0, sigma=0.2, seed=0)
    synchronise(matches, "spectral", 6, progress=True)
    assert closed[-1] == ("Assigning", 4, 4)


def test_a_method_of_ones_own_can_show_bars(matches, terminal, at_once, closed):
    def nothing(matches, universe_size, theta, seed):
        with progress.phase(1, "Nothing", "thing") as shown:
            shown.update()
        return matches

    synchronise(matches, nothing, progress=True)
    assert closed == [("Nothing", 1, 1)]


def test_a_method_that_fails_leaves_the_screen_clean(matches, terminal, at_once):
    def failing(matches, universe_size, theta, seed):
        with progress.phase(1, "Failing", "thing"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        synchronise(matches, failing, progress=True)
    assert "Failing" in terminal.getvalue()
    assert set(terminal.screen()) == {""}


# --- evaluation


@pytest.fixture(scope="module")
def seen(matches):
    """Features, truth and cameras for the matches; the same picture in every view."""
    rng = np.random.default_rng(0)
    features = [
        make_features(rng.uniform(0, 100, (n, 2)), image_size=(101, 101)) for n in matches.sizes
    ]
    K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    k = len(features)
    cameras = [Camera(K, np.eye(3), np.array([-i, 0.0, 0]), (101, 101)) for i in range(k)]
    return features, Homographies(np.array([np.eye(3)] * k), np.array([(101, 101)] * k)), cameras


def test_evaluation_shows_what_it_does(matches, seen, terminal, at_once, closed):
    features, truth, cameras = seen
    expected = evaluate(matches, features, truth, 0, 0, cameras)
    assert (closed, terminal.getvalue()) == ([], "")
    assert evaluate(matches, features, truth, 0, 0, cameras, progress=True) == expected
    assert [(name, total is not None) for name, _, total in closed] == EVALUATED
    assert [done for _, done, _ in closed] == [8 * 7 // 2, 8, 8]
    assert [total for _, _, total in closed] == [8 * 7 // 2, 8, 8]
    assert set(terminal.screen()) == {""}


def test_every_part_of_the_evaluation_can_be_watched(matches, seen, terminal, at_once, closed):
    features, truth, cameras = seen
    for watch in (False, True):
        match_errors(matches, features, truth, progress=watch)
        cycle_error(matches.W, matches.sizes, progress=watch)
        epipolar_errors(matches, features, cameras, progress=watch)
        assert [name for name, _, _ in closed] == [name for name, _ in EVALUATED] * watch


# --- the whole way


@pytest.mark.usefixtures("without_report")
def test_a_run_shows_bars_if_it_is_to_report_its_progress(tmp_path, terminal, at_once, closed):
    settings = Settings(methods=("clustersync",), features=40)
    run_scene("sample/astronaut", settings, tmp_path / "silent")
    assert (closed, terminal.getvalue()) == ([], "")
    run_scene("sample/astronaut", settings, tmp_path / "shown", progress=lambda step: None)
    assert {name for name, _, _ in closed} == {"Clustering", "Errors", "Cycle error"}
