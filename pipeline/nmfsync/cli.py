"""The command line: nmfsync run, data, study, synchronise."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import joblib
import typer
from rich.console import Console
from rich.table import Table

from nmfsync.errors import NmfsyncError, NmfsyncWarning, reason_of
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.evaluation.tracks import Change, compare
from nmfsync.exchange.blocks import check_added, choose
from nmfsync.exchange.formats import COLMAP, HLOC, NPZ, format_of, read_matches
from nmfsync.exchange.tracks import write_source_tracks
from nmfsync.report.change_page import change_rows, write_change_report
from nmfsync.report.dataset_page import write_dataset_report
from nmfsync.report.study_page import write_study_report
from nmfsync.run.batch import _is_dataset, _run_all
from nmfsync.run.matches_file import _remarks, _verified
from nmfsync.run.settings import Settings
from nmfsync.runtime.engine import ENGINES
from nmfsync.runtime.engine import engine as use_engine
from nmfsync.runtime.files import check_target, put, staging
from nmfsync.scenes import catalogue
from nmfsync.study.definitions import STUDIES
from nmfsync.study.runner import run_study
from nmfsync.synchronisation.methods import METHODS, UNWEIGHTED
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import MultiMatching

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turn many overlapping photographs into consistent feature tracks.",
)

data_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="See, download and check the data sets."
)

app.add_typer(data_app, name="data")

Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with local copies of the data sets, DIR/graffiti/graf and so on. "
        "Otherwise $NMFSYNC_DATA, then the cache, then a download.",
        metavar="DIR",
    ),
]

Universe = Annotated[
    str,
    typer.Option(
        help="Number of different points to look for; auto is twice the mean number of "
        "features in an image.",
        metavar="D|auto",
    ),
]

Seed = Annotated[int, typer.Option(help="Same seed, same result.", metavar="S")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(version("nmfsync"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="A data set (graffiti), one of its scenes (graffiti/graf), or a folder of "
            "images. Without any: the sample that ships with the program.",
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Which methods synchronise the matches.", metavar="A,B,...")
    ] = ",".join(METHODS),
    features: Annotated[
        int, typer.Option(help="At most this many features of an image.", metavar="N")
    ] = Settings.features,
    siblings: Annotated[
        bool,
        typer.Option(
            "--siblings",
            help="Keep a feature for every dominant orientation of a position, not just one.",
        ),
    ] = False,
    contrast: Annotated[
        float,
        typer.Option(
            help="SIFT's contrast threshold: a lower one finds more, weaker features.", metavar="C"
        ),
    ] = Settings.contrast,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Match only features this much nearer than the second nearest (usually "
            "0.8); without it, all mutual nearest neighbours match.",
            metavar="R",
        ),
    ] = None,
    distance: Annotated[
        float | None,
        typer.Option(
            help="Match only features at most this far apart; descriptors have a length of "
            "about 512.",
            metavar="D",
        ),
    ] = None,
    pairs: Annotated[
        str,
        typer.Option(
            help="Which pairs of images to match: all; sequential:W, images at most W apart; "
            "nearest:N, every image with the N most similar ones; or a file with two image names "
            "a line.",
            metavar="CHOICE",
        ),
    ] = Settings.pairs,
    verify: Annotated[
        str | None,
        typer.Option(
            help="Keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography).",
            metavar="MODEL",
        ),
    ] = None,
    universe: Universe = "auto",
    theta: Annotated[
        float | None,
        typer.Option(
            help="Larger keeps fewer, surer matches (0 to 1): clustersync charges missing matches "
            "more, nmfsync drops features that fit their point less than this. Otherwise 0.4, and "
            "for nmfsync the paper's value for the data set.",
            metavar="T",
        ),
    ] = None,
    seed: Seed = 0,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Where to write.", metavar="DIR")] = Path("outputs"),
    jobs: Annotated[
        int, typer.Option(help="Work on this many scenes at once.", metavar="N", min=1)
    ] = 1,
    engine: Annotated[
        str,
        typer.Option(
            help=f"What extracts, matches and verifies: {', '.join(ENGINES)}.", metavar="NAME"
        ),
    ] = ENGINES[0],
    address: Annotated[
        str | None,
        typer.Option(
            help="Scheduler of the dask or ray cluster, for instance tcp://10.0.0.1:8786.",
            metavar="ADDRESS",
        ),
    ] = None,
) -> None:
    """Match, synchronise and evaluate images, and write a report.

    Every scene gets a folder OUT/DATA SET/SCENE with report.html, the pictures,
    evaluation.json and tracks.csv; a data set gets a report.html over all its
    scenes and evaluation.csv. A run that was interrupted continues where it stopped.
    """
    settings = Settings(
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()),
        features=features,
        siblings=siblings,
        contrast=contrast,
        ratio=ratio,
        distance=distance,
        pairs=pairs,
        verify=verify,
        universe=_universe_size(universe),
        theta=theta,
        seed=seed,
    )
    wanted = targets or ["sample"]
    scenes = {target: catalogue.scene_names(target) for target in wanted}
    names = list(dict.fromkeys(name for group in scenes.values() for name in group))
    if jobs > 1 and engine != ENGINES[0]:
        raise NmfsyncError(f"--jobs {jobs} works with engine {ENGINES[0]} only, not with {engine}")
    try:
        with use_engine(engine, address):
            done, failed = _run_all(names, settings, out, data, jobs)
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command continues after the last finished step", err=True)
        raise typer.Exit(130) from None
    console = Console()
    for evaluation in done.values():
        _print_scene(console, evaluation, out)
    for target, group in scenes.items():
        evaluations = [done[name] for name in group if name in done]
        if _is_dataset(target) and evaluations:
            entry = catalogue.dataset(target)
            numbers = {
                name: f"#{n} {name.split('/')[-1]}" for n, name in enumerate(entry.members, start=1)
            }
            faults = [f"{numbers.get(n, n)}: {failed[n]}" for n in group if n in failed]
            write_dataset_report(out / target, entry.title, evaluations, numbers, faults)
            console.print(f"All of {target}: {out / target / 'report.html'}", highlight=False)
    if failed:
        raise typer.Exit(1)


def _universe_size(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise NmfsyncError(f"--universe must be a whole number or auto, not {text!r}") from None


def _print_scene(console: Console, evaluation: SceneEvaluation, out: Path) -> None:
    table = Table(
        title=f"{evaluation.scene}: {evaluation.images} images, {evaluation.features:,} features",
        title_justify="left",
    )
    table.add_column("method")
    for heading in (
        "consis-\ntent", "matches", "FCM\n1 %", "precision\n1 %", "cycle-\nerror",
        "seconds", "MB",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for method, figures in evaluation.methods.items():
        table.add_row(method, *_cells(figures))
    console.print(table)
    for warning in evaluation.warnings:
        console.print(f"Warning: {warning}", style="yellow", highlight=False, markup=False)
    console.print(f"Report: {out / evaluation.scene / 'report.html'}\n", highlight=False)


def _cells(figures: MethodEvaluation) -> list[str]:
    shares = (figures.fcm.get("0.01"), figures.precision.get("0.01"))
    return [
        "yes" if figures.cycle_consistent else "no",
        f"{figures.matchings:,}",
        *("–" if share is None else f"{share:.1%}" for share in shares),
        f"{figures.cycle_error:.3f}",
        f"{figures.seconds:.2f}",
        f"{figures.peak_memory_mb:,.0f}",
    ]


@app.command("study")
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(STUDIES)}.")],
    samples: Annotated[
        int | None,
        typer.Option(help="Random samples a point (100; 10 for landmarks).", metavar="N"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder that holds landmarks/, for the study of that name; otherwise "
            "$NMFSYNC_DATA.",
            metavar="DIR",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write.", metavar="DIR")] = Path("outputs"),
    jobs: Annotated[
        int, typer.Option(help="Number of processes; otherwise all cores.", metavar="N", min=1)
    ] = joblib.cpu_count(),
) -> None:
    """Run one of the paper's experiments again, and check its claims.

    Writes results.csv, figure.png, figure.pdf and report.html to OUT/studies/NAME. An
    interrupted study continues where it stopped, and more samples add to those there are.
    """
    if name not in STUDIES:
        raise NmfsyncError(f"unknown study {name!r}; there are {', '.join(STUDIES)}")
    chosen = STUDIES[name]
    if "data" in chosen.base:
        chosen = replace(chosen, base={**chosen.base, "data": data})
    folder = out / "studies" / name
    try:
        results = run_study(chosen, folder, samples, jobs)
    except KeyboardInterrupt:
        typer.echo(
            "Interrupted; the same command continues after the last finished sample", err=True
        )
        raise typer.Exit(130) from None
    write_study_report(folder, chosen, results)
    for verdict in results.verdicts:
        typer.echo(verdict)
    typer.echo(f"Report: {folder / 'report.html'}")


@data_app.command("list")
def data_list() -> None:
    """List the data sets, their scenes and their terms."""
    for entry in catalogue.datasets():
        own = [scene.name.split("/")[1] for scene in entry.scenes]
        scenes = ", ".join(entry.members or own)
        typer.echo(f"{entry.name}: {entry.title}")
        typer.echo(f"  scenes: {scenes}")
        typer.echo(f"  cite: {entry.citation}")
        typer.echo(f"  terms: {entry.terms}")


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A data set or one of its scenes.")],
    data: Data = None,
) -> None:
    """Download a data set, check it, and say where it lies."""
    for folder in catalogue.fetch(name, data):
        typer.echo(f"complete: {folder}")


@data_app.command("verify")
def data_verify(
    name: Annotated[str, typer.Argument(help="A data set or one of its scenes.")],
    data: Data = None,
) -> None:
    """Compare a local copy of a data set, file by file, with the known checksums."""
    checks = catalogue.check_files(name, data)
    for check in checks:
        typer.echo(f"{check.status:8} {check.path}")
    bad = sum(check.status in ("missing", "differs") for check in checks)
    if bad:
        raise NmfsyncError(f"{bad} of {len(checks)} files of {name} are missing or differ")


@data_app.command("path")
def data_path() -> None:
    """Print the folder in which downloaded data sets are kept."""
    typer.echo(catalogue.cache_folder())


@app.command("synchronise")
def synchronise_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MATCHES",
            help="A COLMAP database, matches of hloc (HDF5), or an .npz file written by "
            "PairwiseMatches.save; the content decides.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT", help="The file to write, of the same format."
        ),
    ],
    features: Annotated[
        Path | None,
        typer.Option(help="The features that matches of hloc belong to.", metavar="FILE"),
    ] = None,
    method: Annotated[
        str, typer.Option(help=f"One of {', '.join(METHODS)}.", metavar="NAME")
    ] = "clustersync",
    universe: Universe = "auto",
    theta: Annotated[
        float | None,
        typer.Option(
            help="Larger keeps fewer, surer matches (0 to 1; clustersync and nmfsync).",
            metavar="T",
        ),
    ] = None,
    seed: Seed = 0,
    verify: Annotated[
        str | None,
        typer.Option(
            help="First keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography). Otherwise those that COLMAP verified are "
            "taken, or all.",
            metavar="MODEL",
        ),
    ] = None,
    added: Annotated[
        str,
        typer.Option(
            help="Which matches that were not in MATCHES to write: none; matched, those of images "
            "that had matches; or all (COLMAP and hloc).",
            metavar="CHOICE",
        ),
    ] = "none",
    force: Annotated[bool, typer.Option("--force", help="Overwrite what exists.")] = False,
) -> None:
    """Make your own pairwise matches consistent.

    OUT is like MATCHES, with other matches: a COLMAP database is ready for the mapper; an .npz
    file also holds the universe feature of every feature if the method is cycle-consistent.
    Beside OUT go tracks.csv (if it is) and a report, OUT's name ending in .report.html.
    """
    kind = format_of(file)
    if out.suffix.lower() not in kind.endings:
        raise NmfsyncError(f"{out}: the name must end in {kind.endings[0]}: {file} is {kind.name}")
    tracks, report = out.with_name("tracks.csv"), out.with_name(f"{out.stem}.report.html")
    for path in (out, tracks, report):
        check_target(path, [file, *([features] if features else [])], force)
    check_added(added)
    try:
        # Everything is made aside and put in place at the end.
        with _warnings_as_lines() as warned, staging(out) as folder:
            matches = read_matches(file, features, verified=False if verify else None)
            given = _verified(matches, verify)
            given = given.unweighted() if method in UNWEIGHTED else given
            size = _universe_size(universe)
            result = synchronise(given, method, size, theta, seed, progress=True)
            written = result if kind is NPZ else choose(result, added)
            change = compare(matches, written)
            made = folder / out.name
            if kind is COLMAP:
                written.to_colmap(made, added="all")
            elif kind is HLOC:
                written.to_hloc(made, added="all")
            else:
                written.save(made)
            remarks = _remarks(result, written, change, made)
            texts = [str(warning.message) for warning in warned]
            write_change_report(
                folder / report.name, (file.name, out.name), method, change, remarks, texts
            )
            if isinstance(result, MultiMatching):
                write_source_tracks(folder / tracks.name, result, result.source)
            else:
                tracks.unlink(missing_ok=True)  # of another method
            for path in (tracks, report, out):
                if (folder / path.name).exists():
                    put(folder / path.name, path)
    except KeyboardInterrupt:
        typer.echo("Interrupted; nothing was written", err=True)
        raise typer.Exit(130) from None
    _print_change(change, remarks, out)
    typer.echo(f"Report: {report}")


def _print_change(change: Change, remarks: Sequence[str], out: Path) -> None:
    typer.echo(
        f"{change.images:,} images, {change.features:,} features, "
        f"{change.pairs:,} pairs of images with matches"
    )
    table = Table()
    table.add_column("")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    for row in change_rows(change):
        table.add_row(*row)
    Console().print(table)
    typer.echo(f"{change.kept:,} kept, {change.removed:,} removed, {change.added:,} added")
    for remark in remarks:
        typer.echo(remark)
    typer.echo(f"Wrote {out}")


@contextmanager
def _warnings_as_lines() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NmfsyncWarning)
        yield caught
    for warning in caught:
        typer.echo(f"Warning: {warning.message}", err=True)


def main() -> None:
    """Run the command line; mistakes of the user end in one line and exit code 1."""
    try:
        app()
    except BrokenPipeError:
        os._exit(1)  # the reader of our output is gone, and flushing would fail again
    except (NmfsyncError, OSError, MemoryError) as error:
        sys.exit(f"Error: {reason_of(error)}")
