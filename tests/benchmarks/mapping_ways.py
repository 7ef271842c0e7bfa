"""Ways from photographs to a database that mappers read: COLMAP's, ours, and controls."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from benchmarks.mapping import count_matches, cpu, digest_of, slim_down

CODE = Path(__file__).parents[2] / "pipeline" / "nmfsync"
RATIO = 0.8  # COLMAP's default


@dataclass(frozen=True)
class Way:
    """A way from photographs to verified matches.

    Attributes
    ----------
    name : str
    label : str
        What tables call it.
    command : str
        Of nmfsync, with PHOTOS, DB (COLMAP's database), OUT, and RUN, which all `run` share; ""
        for COLMAP alone.
    ratio : float or None
        COLMAP's ratio test; None if the command does not use COLMAP's matches.
    first : bool
        It is mapped before the controls.
    also_global : bool
        It is mapped by the global mapper as well.
    """

    name: str
    label: str
    command: str = ""
    ratio: float | None = RATIO
    first: bool = False
    also_global: bool = False

    @property
    def needs(self) -> list[str]:
        """The command and the options of nmfsync that it needs."""
        words = self.command.split()
        return words[:1] + [word for word in words if word.startswith("--")]


# The order is that of the tables.
BASELINE = Way("colmap", "COLMAP", first=True, also_global=True)
WAYS = {way.name: way for way in [
    BASELINE,
    Way("colmap-9", "COLMAP, ratio test 0.9", ratio=0.9),
    Way("pairs", "COLMAP, then `pairs`", "pairs DB -o OUT", first=True,
        also_global=True),
    Way("synchronise", "COLMAP, then `synchronise`", "synchronise DB -o OUT"),
    Way("verify", "COLMAP's raw matches, `verify`", "verify DB -o OUT"),
    Way("verify-sync", "COLMAP's raw matches, `synchronise --verify`",
        "synchronise DB --verify fundamental -o OUT"),
    Way("match", "COLMAP's features, `verify --match`", "verify DB --match -o OUT", None, True),
    Way("match-sync", "COLMAP's features, `synchronise --match`",
        "synchronise DB --match --verify fundamental --disambiguate -o OUT", None, True, True),
    Way("run", "`run`", "run PHOTOS --colmap OUT --out RUN", None, True, True),
    Way("run-none", "`run --methods none`",
        "run PHOTOS --colmap OUT --out RUN --methods none", None, True),
    Way("run-all-pairs", "`run --no-disambiguate`",
        "run PHOTOS --colmap OUT --out RUN --no-disambiguate", None),
    Way("run-ratio", "`run --methods none`, ratio test 0.8 in place of evidence",
        "run PHOTOS --colmap OUT --out RUN --methods none --ratio 0.8 --evidence 0", None),
]}  # fmt: skip
OURS = ("match", "match-sync", "run-none", "run")  # what has to be better than COLMAP


@dataclass(frozen=True)
class Prepared:
    """A database that a way left, and what it took.

    Attributes
    ----------
    pairs, matches : int
        Of verified matches.
    seconds : float
        CPU time from photographs to the database; NaN if features of another way were at hand.
    digest : str
        Of what mappers read.
    made_by : str
        Changes when the way does: then it is made again.
    """

    pairs: int
    matches: int
    seconds: float
    digest: str
    made_by: str


def prepare(photographs: Path, folder: Path, say: Callable[[str], None]) -> dict[str, Prepared]:
    """Go all ways for one scene; what is there already and has not changed is not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for way in WAYS.values():
        known = _known(folder, way)
        if known is None and (lacking := _lacking(way.needs)):
            say(f"{folder.name}, {way.name}: left out, there is no {lacking} yet")
            continue
        try:
            found[way.name] = known or _made(way, photographs, folder)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or "").strip().splitlines() or ["failed"]
            say(f"{folder.name}, {way.name}: left out, {lines[-1]}")
    return found


def database_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.db"


def _known(folder: Path, way: Way) -> Prepared | None:
    record = folder / f"{way.name}.json"
    if not record.exists() or not database_of(folder, way.name).exists():
        return None
    known = Prepared(**json.loads(record.read_text()))
    return known if known.made_by == _maker(way) else None


def _made(way: Way, photographs: Path, folder: Path) -> Prepared:
    full, seconds = _colmap(photographs, folder, way)
    path = database_of(folder, way.name)
    if way.command:
        out = folder / "out" / "made.db"
        shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir()
        seconds += _nmfsync(way.command, photographs, full, out)
        slim_down(out, path)
        shutil.rmtree(out.parent)
    else:
        slim_down(full, path)
    made = Prepared(*count_matches(path), seconds, digest_of(path), _maker(way))
    (folder / f"{way.name}.json").write_text(json.dumps(asdict(made)))
    return made


def _colmap(photographs: Path, folder: Path, way: Way) -> tuple[Path, float]:
    """Return COLMAP's database, and the CPU seconds of that in it which a way uses."""
    features, full = folder / "features.full", folder / f"colmap-{way.ratio or RATIO}.full"
    extracting = _timed("features", features, photographs)
    matching = _timed("matches", full, features, way.ratio or RATIO)
    used = 0.0 if "PHOTOS" in way.command else extracting
    return full, used + (0.0 if way.ratio is None else matching)


def _timed(what: str, database: Path, *arguments: object) -> float:
    """Do a step of COLMAP if it is not done; return the CPU seconds that it took."""
    record = database.with_name(database.name + ".seconds")
    if not record.exists():
        database.unlink(missing_ok=True)
        start = cpu()
        _in_process(what, database, *arguments)
        record.write_text(str(cpu() - start))
    return float(record.read_text())


def _in_process(what: str, *arguments) -> None:
    """Do a step of COLMAP in a process of its own: its random numbers begin anew."""
    command = [sys.executable, __file__, what, *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment())


def extract_features(database: str, photographs: str) -> None:
    import pycolmap

    options = pycolmap.FeatureExtractionOptions(num_threads=1)
    pycolmap.extract_features(database, photographs, extraction_options=options)


def match_features(database: str, features: str, ratio: str) -> None:
    import pycolmap

    shutil.copyfile(features, database)
    matching = pycolmap.FeatureMatchingOptions(num_threads=1)
    matching.sift.max_ratio = float(ratio)
    verification = pycolmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = 0
    pycolmap.match_exhaustive(
        database, matching_options=matching, verification_options=verification
    )


def _nmfsync(command: str, photographs: Path, database: Path, out: Path) -> float:
    """Run a command of nmfsync; return its CPU seconds, NaN if it goes on from another."""
    run = database.parent / "run"
    if command == WAYS["run"].command:
        shutil.rmtree(run, ignore_errors=True)
    began = run.exists()
    places = {"PHOTOS": photographs, "DB": database, "OUT": out, "RUN": run}
    start = cpu()
    call([str(places.get(word, word)) for word in command.split()])
    return float("nan") if began and "RUN" in command else cpu() - start


def call(words: list[str]) -> str:
    return subprocess.run(
        [sys.executable, "-m", "nmfsync", *words],
        check=True, capture_output=True, text=True, env=environment(),
    ).stdout  # fmt: skip


def environment() -> dict[str, str]:
    """One thread: two scenes are worked on at once."""
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
    paths = os.pathsep.join([str(CODE.parent), str(Path(__file__).parents[1])])
    return {**os.environ, **dict.fromkeys(names, "1"), "PYTHONPATH": paths, "COLUMNS": "200"}


def _lacking(needs: list[str]) -> str:
    """Return the command or option of nmfsync that there is not yet, or nothing."""
    if not needs:
        return ""
    command, *options = needs
    text = _help_of(command)
    if not text:
        return f"nmfsync {command}"
    return next((option for option in options if f"{option} " not in text), "")


@cache
def _help_of(command: str) -> str:
    try:
        return call([command, "--help"]).replace(",", " ").replace("/", " /").replace("\n", " ")
    except subprocess.CalledProcessError:
        return ""


@cache
def _code() -> str:
    """Digest of the pipeline, of which our databases are made."""
    found = sha256()
    for file in sorted(CODE.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _maker(way: Way) -> str:
    return f"{way.command} {way.ratio} {_code()}" if way.command else f"COLMAP {way.ratio}"


if __name__ == "__main__":
    {"features": extract_features, "matches": match_features}[sys.argv[1]](*sys.argv[2:])
