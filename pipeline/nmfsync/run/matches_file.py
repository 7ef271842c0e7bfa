"""A file of matches made consistent: what `nmfsync synchronise` does."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from nmfsync.errors import NmfsyncError, NmfsyncWarning, collected_warnings
from nmfsync.evaluation.confidence import (
    NO_MATCHES,
    Confidence,
    estimate_confidence,
    is_listed,
    precision_by_track,
)
from nmfsync.evaluation.image_graph import graph_of_images
from nmfsync.evaluation.tracks import Change, compare
from nmfsync.exchange.blocks import check_added, choose
from nmfsync.exchange.colmap import ColmapSource, count_verified
from nmfsync.exchange.formats import NPZ, format_of, read_matches
from nmfsync.exchange.tracks import write_source_tracks
from nmfsync.matching.verification import check_geometry, verify
from nmfsync.report.change_page import write_change_report
from nmfsync.report.estimates import names_of, result_sentence
from nmfsync.report.image_graph import graph_warnings
from nmfsync.run.matches_viewer import Photographs, viewer_of
from nmfsync.runtime.files import check_target, sha256_of, staging
from nmfsync.runtime.provenance import Clock
from nmfsync.runtime.publish import commit, finish, locked, recover
from nmfsync.synchronisation.calibration import calibrate_by_cycles
from nmfsync.synchronisation.methods import DEFAULT_METHOD, Function, Method
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches


@dataclass(frozen=True)
class SynchronisedFile:
    """What `synchronise_file` wrote.

    Attributes
    ----------
    path, report : Path
        The file of matches, and the page about it.
    tracks : Path or None
        None if the method is not cycle-consistent.
    result : PairwiseMatches or MultiMatching
        What the method returned; its `settings` say with which settings.
    change : Change
        What became of the matches of the input in the file.
    confidence : Confidence
        How likely the matches of the result are right, from their weights, or else from
        their cycles; of no matches if there are neither.
    remarks : tuple of str
        What the figures do not say.
    precision : tuple of float or None
        The estimated precision of the matches of the file before and after; None if nothing is
        known.
    """

    path: Path
    report: Path
    tracks: Path | None
    result: Matches
    change: Change
    confidence: Confidence
    remarks: tuple[str, ...]
    precision: tuple[float | None, float | None]


def synchronise_file(
    path: Path | str,
    out: Path | str,
    features: Path | str | None = None,
    method: str | Method | Function = DEFAULT_METHOD,
    universe_size: int | str = "auto",
    theta: float | None = None,
    seed: int = 0,
    geometry: str | None = None,
    added: str = "none",
    overwrite: bool = False,
    progress: bool = False,
    images: Path | str | None = None,
    command: str = "Python: synchronise_file",
    **options: Any,
) -> SynchronisedFile:
    """Make the matches of a file consistent, and write a file of the same format.

    Beside `out` go the tracks, if the method is cycle-consistent, and a report; their names are
    that of `out` with `.tracks.csv` and `.report.html` after it. All are prepared aside and put
    in place together at the end.

    Parameters
    ----------
    path : Path or str
        A COLMAP database, matches of hloc, or an `.npz` file of `PairwiseMatches.save`.
    out : Path or str
    features : Path or str, optional
        The features that matches of hloc belong to.
    method, universe_size, theta, seed, progress, **options
        As for `synchronise`.
    geometry : str, optional
        First keep only matches of two images that agree with one "fundamental"
        matrix or "homography", see `verify`. Otherwise those that COLMAP
        verified are read if there are any.
    added : str
        Which matches that were not in the file to write to a COLMAP database or
        file of hloc: "none", those of images that had matches ("matched"), or "all".
    overwrite : bool
        Replace what exists.
    images : Path or str, optional
        The folder of the photographs, for the report. They are found by the names that the file
        has for them: paths in the folder, or else names that only one file below it has.
    command : str
        What the provenance says was called.

    Returns
    -------
    SynchronisedFile

    Warns
    -----
    NmfsyncWarning
        What reading, verification and the method warn of; the report has it too.

    Raises
    ------
    NmfsyncError
        If the file cannot be used, an option is not valid, or an output exists.
    """
    clock, path, out = Clock(), Path(path), Path(out)
    features = None if features is None else Path(features)
    kind = format_of(path)
    if out.suffix.lower() not in kind.endings:
        raise NmfsyncError(f"{out}: the name must end in {kind.endings[0]}: {path} is {kind.name}")
    tracks, report = (out.with_name(out.name + end) for end in (".tracks.csv", ".report.html"))
    inputs = [path, *([features] if features else [])]
    recover(out.parent, out.name)
    for target in (out, tracks, report):
        check_target(target, inputs, overwrite)
    check_added(added)
    if geometry is not None:
        check_geometry(geometry)
    if images is not None and kind is NPZ:
        raise NmfsyncError(f"{path}: an .npz file has no positions to show on photographs; "
                           "leave out --images")  # fmt: skip
    with staging(out) as folder:
        with collected_warnings() as texts:
            reading = Clock()
            matches = read_matches(path, features, verified=False if geometry else None)
            photographs = Photographs(matches.source, images) if matches.source else None
            usable = _verified(path, matches, geometry, progress)
            digests = _digests(path, features)
            read, working = reading.costs("reading and verification"), Clock()
            result = synchronise(usable, method, universe_size, theta, seed, progress, **options)
            worked = working.costs("synchronisation")
            written = result if kind is NPZ else choose(result, added)
            kind.write(written, folder / out.name)
        change, comparing = compare(matches, written), Clock()
        estimate = _estimate(matches, usable, result, written)
        remarks = _remarks(result, written, change, folder / out.name, estimate)
        graph = graph_of_images(result, estimate.confidence)
        texts += graph_warnings(graph, names_of(result))
        costs = [read, worked, comparing.costs("estimates")]
        viewer = ""
        if photographs and images:
            viewer = viewer_of(photographs, estimate.results, estimate.confidences)
            texts += photographs.warnings
        write_change_report(
            folder / report.name,
            (path.name, out.name),
            change,
            estimate.results,
            estimate.confidences,
            estimate.precision,
            remarks,
            texts,
            viewer,
            graph,
            clock.provenance(command, digests, costs),
        )
        if isinstance(result, MultiMatching):
            precision = precision_by_track(estimate.confidence, result)
            write_source_tracks(folder / tracks.name, result, result.source, precision)
        with locked(out.parent):
            finish(out.parent, out.name)
            for target in (out, tracks, report):  # again: another run may have been faster
                check_target(target, inputs, overwrite)
            made = [
                target.name for target in (out, tracks, report) if (folder / target.name).exists()
            ]
            commit(folder, out.parent, made, [tracks.name, report.name], out.name)
    for text in texts:
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
    kept = tracks if isinstance(result, MultiMatching) else None
    return SynchronisedFile(
        out, report, kept, result, change, estimate.confidence, tuple(remarks), estimate.precision
    )


def _digests(path: Path, features: Path | None) -> dict[str, str]:
    """Return the SHA-256 of the input files, by name."""
    found = {path.name: sha256_of(path)}
    return (
        found if features is None else {**found, f"features: {features.name}": sha256_of(features)}
    )


def _verified(
    path: Path, matches: PairwiseMatches, geometry: str | None, progress: bool
) -> PairwiseMatches:
    if geometry is None:
        return matches
    if matches.source is None:
        raise NmfsyncError(f"{path}: an .npz file has no positions, so its matches cannot be "
                           "verified; leave out --verify")  # fmt: skip
    return verify(matches, matches.source.xy(), geometry, progress)


class _Estimate(NamedTuple):
    """How right the matches of a file are.

    Attributes
    ----------
    results : dict of str to PairwiseMatches or MultiMatching
        "input", and the method.
    confidences : dict of str to Confidence
        Of both; NaN if nothing is known.
    confidence : Confidence
        Of the method; of no matches if nothing is known.
    precision : tuple of float or None
        The estimated precision of the matches of the file before and after.
    origin : str
        From what this is estimated, "" if from nothing.
    """

    results: dict[str, Matches]
    confidences: dict[str, Confidence]
    confidence: Confidence
    precision: tuple[float | None, float | None]
    origin: str


def _estimate(
    matches: PairwiseMatches, usable: PairwiseMatches, result: Matches, written: Matches
) -> _Estimate:
    """Estimate how right the matches of a file are, and those of a result of the usable ones."""
    method = (result.settings or {})["method"]
    known, origin = _probabilities(usable)
    before, _ = (known, origin) if usable is matches else _probabilities(matches)
    results = {"input": matches, method: result}
    if known is None:
        everything = {name: _listed(of, matches) for name, of in results.items()}
        return _Estimate(results, everything, NO_MATCHES, (None, None), "")
    of_result = estimate_confidence(result, known)
    of_written = of_result if written is result else estimate_confidence(written, known)
    of_input = estimate_confidence(matches, before or known)
    confidences = {"input": of_input, method: of_result}
    precision = of_input.precision, of_written.precision
    return _Estimate(results, confidences, of_result, precision, origin)


def _probabilities(matches: PairwiseMatches) -> tuple[PairwiseMatches | None, str]:
    """Return matches weighted by the probability that they are right, and from what; or None."""
    if matches.weighted and not matches.scored:
        return matches, "the weights of the input"
    if _has_cycles(matches):
        return calibrate_by_cycles(matches), "cycles"
    return None, ""


def _listed(result: Matches, matches: PairwiseMatches) -> Confidence:
    """List the matches of a result, or those that the input had if there are too many."""
    if isinstance(result, MultiMatching) and not is_listed(result):
        result = result.kept_of(matches)
    above = sparse.triu(result.W, k=1, format="coo")
    p, q = (ends.astype(np.int64) for ends in above.coords)
    return Confidence(p, q, np.full(len(p), np.nan))


def _has_cycles(matches: PairwiseMatches) -> bool:
    """Say whether any three images match each other: without, cycles tell nothing."""
    above = sparse.triu(matches.W, k=1, format="coo")
    k, image_of = len(matches.sizes), matches.image_of
    i, j = divmod(np.unique(image_of[above.row] * k + image_of[above.col]), k)
    # From images with few others to those with many, so that one that is matched with all is cheap.
    rank = np.argsort(np.argsort(np.bincount(np.concatenate([i, j]), minlength=k), kind="stable"))
    i, j = np.sort([rank[i], rank[j]], axis=0)
    linked = sparse.csr_array((np.ones(len(i)), (i, j)), shape=(k, k))
    return bool((linked @ linked).multiply(linked).nnz)  # i–j–l and i–l, with i < j < l


def _remarks(
    result: Matches,
    written: Matches,
    change: Change,
    made: Path,
    estimate: _Estimate,
) -> Sequence[str]:
    """Say what the figures of a change do not."""
    remarks, confidence, origin = [], estimate.confidence, estimate.origin
    if sentence := result_sentence(confidence, origin):
        remarks.append(sentence)
        if len(confidence.p) < result.match_count:
            remarks.append(
                f"All {result.match_count:,} matches of the result are too many to estimate: "
                "those that the input had were."
            )
    elif change.pairs and not origin:
        remarks.append(
            "No three images match each other, so how many matches are right is not estimated."
        )
    if left := result.match_count - written.match_count:
        remarks.append(
            f"{left:,} more matches, which link features through others, are not in the file."
        )
    if change.elsewhere:
        remarks.append(
            f"{change.elsewhere:,} of the matches added are between images that had none."
        )
    if isinstance(result.source, ColmapSource) and result.source.unverified:
        matches, pairs = count_verified(made)
        remarks.append(f"COLMAP's verification keeps {matches:,} matches of {pairs:,} pairs.")
    return remarks
