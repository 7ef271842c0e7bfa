"""The commands of nmfsync, run to pairs: their options.

What does the work is imported by the command that needs it, so that help comes at once.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from nmfsync.cli.streams import (
    code_of,
    interruptible,
    open_streams,
    say,
    stopped_by_signals,
    warnings_as_lines,
)
from nmfsync.errors import NmfsyncError, is_thread_limit, printable, reason_of, shown
from nmfsync.features.options import CONTRAST
from nmfsync.run.settings import (
    EVIDENCE,
    FEATURES,
    FEATURES_OF_PART,
    FINE_CONTRAST,
    MOST_IN_ALL_PAIRS,
    NEAREST,
    Settings,
)
from nmfsync.runtime.engines import DEFAULT_ENGINE, ENGINES
from nmfsync.study.names import STUDY_NAMES
from nmfsync.synchronisation.methods import DEFAULT_METHOD, METHODS

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


_BOTH_SPELLINGS = ("--methods", "--method")

Methods = Annotated[
    list[str] | None,
    typer.Option(
        *_BOTH_SPELLINGS,
        help=f"Which methods synchronise the matches: {', '.join(METHODS)}; or none. By default "
        f"{DEFAULT_METHOD} for own photographs, else all.",
        metavar="A,B,...",
    ),
]


def _names_in(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names in lists with commas, each once."""
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(filter(None, names)))


def _one_of(texts: Sequence[str]) -> str:
    """Return the only method in lists with commas."""
    names = _names_in(texts)
    if len(names) != 1:
        found = ", ".join(map(shown, names)) or "none"
        raise NmfsyncError(f"synchronise takes one method, got {found}; call it once for each")
    return names[0]


def _theta_help() -> str:
    defaults = []
    for name, method in METHODS.items():
        if method.consistent is not None and "theta" in method.arguments:
            weighted = method.weighted_options.get("theta", method.theta)
            also = f" ({weighted:g} for matches with weights)" if weighted != method.theta else ""
            defaults.append(f"{method.theta:g}{also} for {name}")
    return (
        "How sure matches must be, from 0 to 1: larger keeps fewer, surer matches. By default "
        + ", ".join(defaults) + "; the other methods take none."
    )  # fmt: skip


HlocFeatures = Annotated[
    Path | None,
    typer.Option(help="The features that matches of hloc belong to.", metavar="FILE"),
]

Evidence = Annotated[
    float,
    typer.Option(help="With --match: least probability that a match is right.", metavar="P"),
]

Address = Annotated[
    str | None,
    typer.Option(
        help="Scheduler of the dask or ray cluster, for instance tcp://10.0.0.1:8786.",
        metavar="ADDRESS",
    ),
]

Theta = Annotated[float | None, typer.Option(help=_theta_help(), metavar="T")]
Seed = Annotated[int, typer.Option(help="Same seed, same result.", metavar="S")]


def _print_version(asked: bool) -> None:
    if asked:
        say(version("nmfsync"))
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
    methods: Methods = None,
    features: Annotated[
        int | None,
        typer.Option(
            help="At most this many features of an image; by default "
            f"{FEATURES:,} of own photographs, else 200.",
            metavar="N",
        ),
    ] = None,
    siblings: Annotated[
        bool | None,
        typer.Option(
            "--siblings/--no-siblings",
            help="Keep a feature for every dominant orientation of a position, not just one; on by "
            "default for own photographs. The ratio test (--ratio) takes them for different "
            "features, so that a match is also lost if the second nearest is the same position in "
            "another orientation.",
            show_default=False,
        ),
    ] = None,
    contrast: Annotated[
        float | None,
        typer.Option(
            help="SIFT's contrast threshold: a lower one finds more, weaker features; by default "
            f"{FINE_CONTRAST:g} for own photographs, else {CONTRAST:g}.",
            metavar="C",
        ),
    ] = None,
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
        str | None,
        typer.Option(
            help="Which pairs of images to match: all; sequential:W, images at most W apart; "
            "nearest:N, every image with the N most similar ones; or a file with two image names "
            f"a line. By default all, and nearest:{NEAREST} of more than {MOST_IN_ALL_PAIRS} own "
            "photographs.",
            metavar="CHOICE",
        ),
    ] = None,
    evidence: Annotated[
        float | None,
        typer.Option(
            help="Leave out matches that are right with less than this probability, before they "
            f"are verified; by default {EVIDENCE:g} for own photographs, else 0.",
            metavar="P",
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            help="Keep only matches of two images that agree with one fundamental matrix "
            "(fundamental, the default for own photographs) or homography (homography); none "
            "keeps all.",
            metavar="GEOMETRY",
        ),
    ] = None,
    disambiguate: Annotated[
        bool | None,
        typer.Option(
            "--disambiguate/--no-disambiguate",
            help="Leave out pairs of images that show different places which look alike; on by "
            "default for own photographs.",
            show_default=False,
        ),
    ] = None,
    universe: Universe = "auto",
    theta: Theta = None,
    seed: Seed = 0,
    min_probability: Annotated[
        float,
        typer.Option(
            help="Give methods for 0/1 matrices only matches that are right with at least this "
            "probability; all by default, as in the papers.",
            metavar="P",
        ),
    ] = Settings.min_probability,
    figures: Annotated[
        bool,
        typer.Option(
            "--figures",
            help="Also write the figures as PDF and SVG for papers, and table.tex, to the folder "
            "figures beside every report.",
        ),
    ] = Settings.figures,
    colmap: Annotated[
        Path | None,
        typer.Option(
            help="Also write a COLMAP database that its mappers read at once, for one scene.",
            metavar="FILE.db",
        ),
    ] = None,
    hloc: Annotated[
        Path | None,
        typer.Option(
            help="Also write features.h5, matches.h5 and pairs.txt for hloc, for one scene.",
            metavar="DIR",
        ),
    ] = None,
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
    ] = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Match, synchronise and evaluate images, and write a report.

    Every scene gets a folder OUT/DATA SET/SCENE with report.html, the pictures,
    evaluation.json and tracks.csv; a data set gets a report.html over all its
    scenes and evaluation.csv. A folder of images gets OUT/images/FOLDER.
    A run that was interrupted continues where it stopped.
    """
    from nmfsync.cli import scenes
    from nmfsync.run.batch import run_scenes
    from nmfsync.runtime.provenance import command_line

    settings = Settings(
        methods=None if methods is None else _names_in(methods),
        features=features,
        orientations=siblings,
        contrast=contrast,
        ratio=ratio,
        distance=distance,
        pairs=pairs,
        evidence=evidence,
        geometry=verify,
        disambiguate=disambiguate,
        universe_size=_universe_size(universe),
        theta=theta,
        seed=seed,
        min_probability=min_probability,
        figures=figures,
        colmap=colmap,
        hloc=hloc,
    )
    with interruptible("the same command continues after the last finished step"):
        batch = run_scenes(
            targets or ["sample"],
            settings,
            out,
            data,
            jobs,
            engine,
            address,
            progress=True,
            command=command_line(sys.argv[1:]),
        )
    console = scenes.new_console()
    for evaluation in batch.evaluations.values():
        scenes.print_scene(console, evaluation, out)
    if batch.evaluations:
        scenes.print_exports(colmap, hloc, (targets or ["sample"])[0])
    for target, report in batch.reports.items():
        say(f"All of {target}: {report}")
    if batch.failures:
        raise typer.Exit(1)


@app.command("tracks")
def tracks(
    photographs: Annotated[str, typer.Argument(metavar="PHOTOGRAPHS", help="A folder of images.")],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The file to write: FILE.csv, a table of tracks; FILE.npz, for Python; or "
            "FILE.db, a COLMAP database, whose matches have to fit into memory.",
        ),
    ],
    features: Annotated[
        int, typer.Option(help="At most this many features of an image.", metavar="N")
    ] = FEATURES,
    contrast: Annotated[
        float,
        typer.Option(
            help="SIFT's contrast threshold: a lower one finds more, weaker features.", metavar="C"
        ),
    ] = FINE_CONTRAST,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Which pairs of images to match, as for run: all; sequential:W; nearest:N; or a "
            "file with two image names a line.",
            metavar="CHOICE",
        ),
    ] = None,
    evidence: Annotated[
        float,
        typer.Option(
            help="Leave out matches that are right with less than this probability, before they "
            "are verified.",
            metavar="P",
        ),
    ] = EVIDENCE,
    verify: Annotated[
        str,
        typer.Option(
            help="Keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography); none keeps all.",
            metavar="GEOMETRY",
        ),
    ] = "fundamental",
    theta: Annotated[
        float | None,
        typer.Option(
            help="How sure tracks must be, from 0 to 1: larger keeps fewer, surer matches. By "
            f"default {METHODS[DEFAULT_METHOD].theta:g}.",
            metavar="T",
        ),
    ] = None,
    part: Annotated[
        int,
        typer.Option(
            help="Features that one process synchronises at a time, about; of connected features "
            "that are more, the result depends on it a little.",
            metavar="N",
            min=1,
        ),
    ] = FEATURES_OF_PART,
    engine: Annotated[
        str,
        typer.Option(help=f"What does the work: {', '.join(ENGINES)}.", metavar="NAME"),
    ] = DEFAULT_ENGINE,
    address: Address = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT and OUT.json.")] = False,
) -> None:
    """Take a collection of photographs of any size to tracks, on one machine or on a cluster.

    Like run for own photographs, but nothing holds all features or matches in memory, and there
    is no search for look-alikes, no evaluation and no report. OUT.json says how OUT was made; the
    folder OUT.stages keeps features and matches, so that an interrupted run continues there.
    """
    from nmfsync.cli import results
    from nmfsync.run.tracks_file import track_images
    from nmfsync.runtime.provenance import command_line

    settings = Settings(
        features=features,
        contrast=contrast,
        pairs=pairs,
        evidence=evidence,
        geometry=verify,
        disambiguate=False,
        theta=theta,
    )
    with interruptible("the same command continues after the last finished step"):
        done = track_images(
            photographs,
            out,
            settings,
            part,
            force,
            engine,
            address,
            progress=True,
            command=command_line(sys.argv[1:]),
        )
    results.print_tracks(done)
    say(f"Wrote {done.path}")


def _universe_size(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise NmfsyncError(f"--universe must be auto or a whole number, got {text!r}") from None


@app.command()
def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="What nmfsync run has written: outputs, a data set (outputs/graffiti), a scene "
            "(outputs/graffiti/graf), or an evaluation.json. The others are compared with the "
            "first one.",
        ),
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            *_BOTH_SPELLINGS,
            help="Compare only these methods. Of one FOLDER, the others with the first one.",
            metavar="A,B,...",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")
    ] = Path("compare.html"),
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite FILE even if it is no such page.")
    ] = False,
) -> None:
    """Compare runs, settings, methods: what differs, and what may be chance.

    Of two or more folders, every method is compared with itself; of one, its methods with each
    other. Differences are paired scene by scene, with 95 % intervals.
    """
    from nmfsync.cli import results
    from nmfsync.run.compare import compare_runs

    chosen = None if methods is None else _names_in(methods)
    with interruptible("nothing was written"):
        comparison = compare_runs(folders, chosen, out, overwrite=force)
    results.print_comparison(comparison)
    say(f"Report: {out}")


@app.command("study")
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(STUDY_NAMES)}.")],
    samples: Annotated[
        int | None,
        typer.Option(help="Random samples a point (100; landmarks 10, robustness 5).", metavar="N"),
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
        int | None,
        typer.Option(help="Number of processes; otherwise all cores.", metavar="N", min=1),
    ] = None,
) -> None:
    """Run one of the paper's experiments again, and check its claims.

    Writes results.csv, figure.png, figure.pdf and report.html to OUT/studies/NAME. An
    interrupted study continues where it stopped, and more samples add to those there are.
    """
    from nmfsync.run.study import run_study

    with interruptible("the same command continues after the last finished sample"):
        done = run_study(name, out, samples, data, jobs, progress=True)
    for verdict in done.results.verdicts:
        say(verdict)
    say(f"Report: {done.report}")


@data_app.command("list")
def data_list() -> None:
    """List the data sets, their scenes and their terms."""
    from nmfsync.scenes import catalogue

    for entry in catalogue.datasets():
        own = [scene.name.split("/")[1] for scene in entry.scenes]
        scenes = ", ".join(entry.members or own)
        say(f"{entry.name}: {entry.title}")
        say(f"  scenes: {scenes}")
        say(f"  cite: {entry.citation}")
        say(f"  terms: {entry.terms}")


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A data set or one of its scenes.")],
    data: Data = None,
) -> None:
    """Download a data set, check it, and say where it lies."""
    from nmfsync.scenes import catalogue

    with interruptible("scenes that are complete stay"):
        for folder in catalogue.fetch(name, data):
            say(f"complete: {folder}")


@data_app.command("verify")
def data_verify(
    name: Annotated[str, typer.Argument(help="A data set or one of its scenes.")],
    data: Data = None,
) -> None:
    """Compare a local copy of a data set, file by file, with the known checksums."""
    from nmfsync.scenes import catalogue

    with interruptible("nothing was changed"):
        checks = catalogue.check_files(name, data)
    for check in checks:
        say(f"{check.status:8} {check.path}")
    bad = sum(check.status in ("missing", "differs") for check in checks)
    if bad:
        raise NmfsyncError(f"{bad} of {len(checks)} files of {name} are missing or differ")


@data_app.command("path")
def data_path() -> None:
    """Print the folder in which downloaded data sets are kept."""
    from nmfsync.scenes import catalogue

    say(catalogue.cache_folder())


@app.command("synchronise")
def synchronise(
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
            "-o",
            "--output",
            metavar="OUT",
            help="The file to write, of the same format; or, for matches of hloc, FILE.db, a new "
            "COLMAP database (with --images).",
        ),
    ],
    features: HlocFeatures = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            *_BOTH_SPELLINGS,
            help=f"By default {DEFAULT_METHOD}; one of "
            + ", ".join(name for name, m in METHODS.items() if not m.needs_descriptors)
            + ".",
            metavar="NAME",
        ),
    ] = None,
    universe: Universe = "auto",
    theta: Theta = None,
    seed: Seed = 0,
    verify: Annotated[
        str | None,
        typer.Option(
            help="First keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography). Otherwise those that COLMAP verified are "
            "taken, or all.",
            metavar="GEOMETRY",
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
    images: Annotated[
        Path | None,
        typer.Option(
            help="Show the matches on these photographs in the report; they are found by their "
            "names in MATCHES (COLMAP and hloc).",
            metavar="DIR",
        ),
    ] = None,
    disambiguate: Annotated[
        bool,
        typer.Option(
            "--disambiguate",
            help="First leave out pairs of images that show different places which look alike, see "
            "nmfsync pairs (COLMAP and hloc).",
        ),
    ] = False,
    match: Annotated[
        bool,
        typer.Option(
            "--match",
            help="First match the SIFT descriptors of a COLMAP database anew, by evidence in place "
            "of a ratio test; --verify fundamental is then the default.",
        ),
    ] = False,
    evidence: Evidence = EVIDENCE,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT, OUT.tracks.csv and OUT.report.html.")
    ] = False,
) -> None:
    """Make your own pairwise matches consistent.

    OUT is like MATCHES, with other matches: a COLMAP database is ready for the mapper; an .npz
    file also holds the universe feature of every feature if the method is cycle-consistent.
    Beside OUT go OUT.tracks.csv (if it is) and OUT.report.html.
    """
    from nmfsync.cli import results
    from nmfsync.run.matches_file import synchronise_file
    from nmfsync.runtime.provenance import command_line

    with interruptible("nothing was written"), warnings_as_lines():
        done = synchronise_file(
            file,
            out,
            features,
            DEFAULT_METHOD if method is None else _one_of(method),
            _universe_size(universe),
            theta,
            seed,
            geometry=verify,
            added=added,
            overwrite=force,
            progress=True,
            command=command_line(sys.argv[1:]),
            images=images,
            disambiguate=disambiguate,
            match=match,
            evidence=evidence,
        )
        results.print_change(done)
    say(f"Wrote {done.path}")
    say(f"Report: {done.report}")


@app.command("verify")
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MATCHES",
            help="A COLMAP database or matches of hloc (HDF5); the content decides.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The file to write, of the same format; or, for matches of hloc, FILE.db, a new "
            "COLMAP database (with --images).",
        ),
    ],
    features: HlocFeatures = None,
    geometry: Annotated[
        str,
        typer.Option(
            help="Keep matches of two images that agree with one fundamental matrix (fundamental) "
            "or homography (homography).",
            metavar="GEOMETRY",
        ),
    ] = "fundamental",
    match: Annotated[
        bool,
        typer.Option(
            "--match",
            help="First match the SIFT descriptors of a COLMAP database anew, by evidence in place "
            "of a ratio test.",
        ),
    ] = False,
    evidence: Evidence = EVIDENCE,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Show the matches on these photographs in the report; they are found by their "
            "names in MATCHES.",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT and OUT.report.html.")
    ] = False,
) -> None:
    """Keep the matches of your own file that agree with the geometry of two images.

    OUT is like MATCHES, with fewer matches: a COLMAP database is ready for the mapper. Beside it
    goes OUT.report.html. An image with few matches keeps pairs that others would not.
    """
    from nmfsync.cli import results
    from nmfsync.run.verify_file import verify_file
    from nmfsync.runtime.provenance import command_line

    with interruptible("nothing was written"), warnings_as_lines():
        done = verify_file(
            file,
            out,
            features,
            geometry,
            overwrite=force,
            progress=True,
            images=images,
            command=command_line(sys.argv[1:]),
            match=match,
            evidence=evidence,
        )
        results.print_change(done)
    say(f"Wrote {done.path}")
    say(f"Report: {done.report}")


@app.command("pairs")
def pairs(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MATCHES",
            help="A COLMAP database or matches of hloc (HDF5), verified; the content decides.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT", help="The file to write, of the same format."
        ),
    ],
    features: HlocFeatures = None,
    verify: Annotated[
        str | None,
        typer.Option(
            help="First keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography). Otherwise those that COLMAP verified are "
            "judged, or all.",
            metavar="GEOMETRY",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Show these photographs of the wrong pairs in the report; they are found by their "
            "names in MATCHES.",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT, OUT.pairs.csv and OUT.report.html.")
    ] = False,
) -> None:
    """Find pairs of images that show different places which look alike, and leave them out.

    OUT is like MATCHES without the matches of these pairs; everything else is unchanged. Beside
    OUT go OUT.pairs.csv, the evidence and verdict of every pair, and OUT.report.html.
    """
    from nmfsync.cli import results
    from nmfsync.run.pairs_file import disambiguate_file
    from nmfsync.runtime.provenance import command_line

    with interruptible("nothing was written"), warnings_as_lines():
        done = disambiguate_file(
            file,
            out,
            features,
            geometry=verify,
            overwrite=force,
            progress=True,
            images=images,
            command=command_line(sys.argv[1:]),
        )
        results.print_wrong_pairs(done)
    say(f"Wrote {done.path}")
    say(f"All pairs: {done.table}")
    say(f"Report: {done.report}")


@app.command("merge")
def merge(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MATCHES",
            help="What a detector-free matcher found: the HDF5 file of hloc's match_dense, an "
            ".npz file of positions, or a COLMAP database whose keypoints belong to pairs.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="A COLMAP database to write, FILE.db, or a folder for hloc's files.",
        ),
    ],
    images: Annotated[Path, typer.Option(help="The folder of the photographs.", metavar="DIR")],
    radius: Annotated[
        float | None,
        typer.Option(
            help="Places of an image nearer than this, in pixels, are one keypoint; by default it "
            "follows from the noise and the density of the matches.",
            metavar="R",
        ),
    ] = None,
    verify: Annotated[
        str,
        typer.Option(
            help="Keep only matches of two images that agree with one fundamental matrix "
            "(fundamental) or homography (homography).",
            metavar="GEOMETRY",
        ),
    ] = "fundamental",
    disambiguate: Annotated[
        bool,
        typer.Option(
            "--disambiguate",
            help="Leave out pairs of images that show different places which look alike.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
) -> None:
    """Make shared keypoints and tracks of detector-free matches (LoFTR, RoMa, DKM).

    Their positions belong to pairs of images. OUT has keypoints that images share, with at most
    one of an image in a track, and verified matches: a mapper reads it at once.
    """  # fmt: skip
    from nmfsync.cli import results
    from nmfsync.run.merge_file import merge_file

    with interruptible("nothing was written"), warnings_as_lines():
        done = merge_file(file, out, images, radius, verify, disambiguate, force, progress=True)
        results.print_merged(done)
    say(f"Wrote {done.path}")


def main() -> None:
    """Run the command line; mistakes of the user end in one line and exit code 1."""
    open_streams()
    try:
        with stopped_by_signals():
            code = app(standalone_mode=False)
    except BrokenPipeError:
        os._exit(1)  # the reader of our output is gone, and flushing would fail again
    except (NmfsyncError, OSError, MemoryError) as error:
        sys.exit(f"Error: {reason_of(error)}")
    except (typer.Abort, KeyboardInterrupt) as stop:  # where there is nothing to continue
        say("Interrupted", err=True)
        sys.exit(code_of(stop.__cause__ or stop))
    except RuntimeError as error:
        if not is_thread_limit(error):
            raise
        sys.exit(f"Error: {reason_of(error)}")
    except _WrongUsage as error:
        error.message = "\n".join(map(printable, error.message.split("\n")))
        error.show()
        code = error.exit_code
    sys.exit(code)


# What typer says of wrong options; its name differs between versions.
_WrongUsage: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
