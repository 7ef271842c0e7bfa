"""COLMAP's mappers on its own matches and on ours, from photographs of nine scenes.

python -m pytest -m benchmark tests/benchmarks/test_mapping.py -s

Needs `pip install pycolmap`; half an hour on two cores ($MAPPING_MINUTES is when no further run
begins; $MAPPING_SCENES names some scenes, and $MAPPING_RUNS asks for more than five runs). Every
database and run is kept in outputs/benchmarks/mapping, so that the next call does what is left,
and only makes and maps again what a change of the program has changed. Tables go to mapping.csv,
mapping.md and mapping.png beside it and, once all is there, into docs/mapping.md.
"""

import csv
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, fields
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest

from benchmarks import mapping_tables
from benchmarks.comparison import OUTPUTS
from benchmarks.mapping import Model, copy_photographs, photographs_of, run_mapper, true_poses
from benchmarks.mapping_tables import Results, RunKey, mean_ratio
from benchmarks.mapping_ways import WAYS, Prepared, call, database_of, environment, prepare
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
pytestmark = pytest.mark.benchmark

WORKERS = 2
MINUTES = float(os.environ.get("MAPPING_MINUTES", "28"))
FOLDER = OUTPUTS / "mapping"
RUNS = FOLDER / "runs.csv"
SFM = ("sfm/sceaux", "sfm/street", "sfm/reichstag")


@dataclass(frozen=True, order=True)
class Job:
    """A run of a mapper that is to be done; the smallest is done first."""

    turn: int
    seed: int
    scene: str
    mapper: str
    way: str


def test_mapping() -> None:
    scenes = chosen_scenes()
    deadline = time.monotonic() + 60 * MINUTES
    results = Results(scenes, {}, known_runs())
    os.environ.update(environment())  # for the workers
    compile_once()
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        work(pool, results, deadline)
    if left := sum(1 for _ in jobs(results)):
        print(f"{left} runs of mappers are left: call again to go on")
    mapping_tables.write(results, OUTPUTS)
    print("Not all that is asked:", *mapping_tables.failures(results), sep="\n  ")
    assert not mapping_tables.broken(results)
    assert not mean_ratio(results, "run", "pixels") > 1
    assert not mean_ratio(results, "match-sync", "pixels") > 1


def compile_once() -> None:
    """Let the program compile what it needs, which counts for no scene."""
    with tempfile.TemporaryDirectory() as folder:
        call(["run", "--methods", "clustersync", "--out", folder])


def chosen_scenes() -> list[str]:
    """All scenes, or those that $MAPPING_SCENES names."""
    every = sorted(scene_names("epfl"), key=lambda name: len(photographs_of(name)))
    every += [name for name in SFM if real_data(name)]
    chosen = os.environ.get("MAPPING_SCENES", "").split()
    return [name for name in every if not chosen or name.split("/")[1] in chosen]


def folder_of(scene: str) -> Path:
    return FOLDER / scene.split("/")[1]


def photographs_folder(scene: str) -> Path:
    """Copy the photographs alone, as a user has them."""
    folder = folder_of(scene) / "photographs" / scene.split("/")[1]
    if not folder.exists():
        aside = folder.with_name("incomplete")
        shutil.rmtree(aside, ignore_errors=True)
        copy_photographs(scene, aside)
        aside.rename(folder)
    return folder


def work(pool: ProcessPoolExecutor, results: Results, deadline: float) -> None:
    """Prepare the scenes, the largest first, and map what is most important."""
    waiting = sorted(results.scenes, key=lambda name: len(photographs_of(name)))
    preparing: dict[Future, str] = {}
    mapping: dict[Future, Job] = {}
    while True:
        while len(preparing) + len(mapping) < WORKERS and time.monotonic() < deadline:
            if waiting:
                scene = waiting.pop()
                preparing[pool.submit(prepared, scene)] = scene
            elif job := next_job(results, set(mapping.values())):
                mapping[pool.submit(mapped, job)] = job
            else:
                break
        if not preparing and not mapping:
            return
        for done in wait([*preparing, *mapping], return_when=FIRST_COMPLETED).done:
            if done in preparing:
                results.prepared[preparing.pop(done)] = done.result()
            else:
                keep(results, mapping.pop(done), done.result())


def prepared(scene: str) -> dict[str, Prepared]:
    start = time.monotonic()
    found = prepare(
        photographs_folder(scene), folder_of(scene), lambda line: print(line, flush=True)
    )
    print(f"{scene}: prepared in {time.monotonic() - start:.0f} s", flush=True)
    return found


def mapped(job: Job) -> Model:
    database = database_of(folder_of(job.scene), job.way)
    return run_mapper(
        database, photographs_folder(job.scene), truth_of(job.scene), job.mapper, job.seed
    )


@cache
def truth_of(scene: str):
    return true_poses(scene)


def jobs(results: Results) -> Iterator[Job]:
    """Yield the runs that are not done: five of each way; the global mapper three of a few.

    What is judged comes first, then one or two runs of everything else, and then the rest.
    """
    for scene, ways in results.prepared.items():
        for name, made in ways.items():
            way = WAYS[name]
            later = [2, 2, 4] + [5] * (mapping_tables.RUNS - 3)
            turns = {"incremental": [1] * mapping_tables.RUNS if way.first else later}
            if way.also_global:
                turns["global"] = [3, 4, 4]
            for mapper, order in turns.items():
                for seed, turn in enumerate(order):
                    if RunKey(scene, made.digest, mapper, seed) not in results.runs:
                        yield Job(turn, seed, scene, mapper, name)


def next_job(results: Results, begun: set[Job]) -> Job | None:
    """Return the most important run of which no equal one is under way."""
    under_way = {key_of(results, job) for job in begun}
    return min((job for job in jobs(results) if key_of(results, job) not in under_way),
               default=None)  # fmt: skip


def key_of(results: Results, job: Job) -> RunKey:
    digest = results.prepared[job.scene][job.way].digest
    return RunKey(job.scene, digest, job.mapper, job.seed)


def keep(results: Results, job: Job, model: Model) -> None:
    """Keep a run: in a file as well, so that it is never done again."""
    key = key_of(results, job)
    results.runs[key] = model
    new = not RUNS.exists()
    with RUNS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow([*RunKey._fields, *(field.name for field in fields(Model))])
        writer.writerow([*key, *asdict(model).values()])
    print(f"{job.scene:20}{job.way:15}{job.mapper:12}{job.seed:2}{model.models:3}{model.images:4}"
          f"{model.points:7}{model.observations:8}{model.doubled:5}{model.apart:4}"
          f"{model.length:6.2f}{model.pixels:7.3f}{model.camera:9.3f}{model.rotation:8.3f}"
          f"{model.seconds:7.1f}", flush=True)  # fmt: skip


def known_runs() -> dict[RunKey, Model]:
    if not RUNS.exists():
        return {}
    with RUNS.open(newline="", encoding="utf-8") as file:
        return dict(map(_read_run, csv.DictReader(file)))


def _read_run(row: Mapping[str, str]) -> tuple[RunKey, Model]:
    kinds = {field.name: field.type for field in fields(Model)}
    figures = {name: (int if kind in (int, "int") else float)(row[name])
               for name, kind in kinds.items()}  # fmt: skip
    key = RunKey(row["scene"], row["digest"], row["mapper"], int(row["seed"]))
    return key, Model(**figures)
