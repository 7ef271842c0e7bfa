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
from nmfsync.exchange.formats import NPZ, read_matches
from nmfsync.exchange.new_database import write_new_database
from nmfsync.exchange.positions import belong_to_pairs
from nmfsync.exchange.tracks import write_source_tracks
from nmfsync.matching.options import check_geometry
from nmfsync.report.change_page import VERIFICATION, write_change_report
from nmfsync.report.estimates import names_of, result_sentence
from nmfsync.report.image_graph import graph_warnings
from nmfsync.report.wrong_pairs import verdict_sentences
from nmfsync.run.image_pairs import not_verified, without_wrong_pairs
from nmfsync.run.matches_input import (
    check_photographs,
    digests_of,
    is_new_database,
    output_format,
    source_of,
    verified,
)
from nmfsync.run.matches_viewer import Photographs, viewer_of
from nmfsync.run.matching_anew import match_colmap
from nmfsync.run.new_images import new_images
from nmfsync.run.settings import EVIDENCE
from nmfsync.runtime.extras import optional
from nmfsync.runtime.provenance import Clock
from nmfsync.runtime.publish import publication_beside
from nmfsync.synchronisation.calibration import calibrate_by_cycles
from nmfsync.synchronisation.methods import DEFAULT_METHOD, Function, Method
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches
from nmfsync.types.verdicts import PairVerdict


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
    verdicts : list of PairVerdict
        On every pair of images that had matches, if wrong ones were to be left out.
    """

    path: Path
    report: Path
    tracks: Path | None
    result: Matches
    change: Change
    confidence: Confidence
    remarks: tuple[str, ...]
    precision: tuple[float | None, float | None]
    verdicts: list[PairVerdict]


def synchronise_file(
    path: Path | str,
    out: Path | str,
    features: Path | str | None = None,
    method: str | Method | Function | None = DEFAULT_METHOD,
    universe_size: int | str = "auto",
    theta: float | None = None,
    seed: int = 0,
    geometry: str | None = None,
    added: str = "none",
    overwrite: bool = False,
    progress: bool = False,
    images: Path | str | None = None,
    command: str = "Python: synchronise_file",
    disambiguate: bool = False,
    match: bool = False,
    evidence: float = EVIDENCE,
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
        Of the same format; or, for matches of hloc, a new COLMAP database, whose name ends in
        .db. This needs `images`.
    features : Path or str, optional
        The features that matches of hloc belong to.
    method, universe_size, theta, seed, progress, **options
        As for `synchronise`. Without a method the matches are only verified.
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
    disambiguate : bool
        First leave out the matches of look-alike pairs of images, see `disambiguate_file`.
    match : bool
        First match the descriptors of a COLMAP database anew, with at least this `evidence`, see
        `match_colmap`; the matches are then verified by a fundamental matrix if `geometry` does
        not say otherwise.
    evidence : float

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
    kind = output_format(path, out, database=True)
    tracks, report = (out.with_name(out.name + end) for end in (".tracks.csv", ".report.html"))
    inputs = [path, *([features] if features else [])]
    check_added(added)
    if geometry is None and match:
        geometry = "fundamental"
    if geometry is not None:
        check_geometry(geometry)
    check_photographs(path, kind, images)
    if is_new_database(kind, out):
        _check_new_database(out, images)
    with publication_beside((out, tracks, report), inputs, overwrite) as folder:
        with collected_warnings() as texts:
            reading = Clock()
            matches = read_matches(
                path, features, verified=None if match or not geometry else False
            )
            _offer_to_merge(matches)
            photographs = Photographs(matches.source, images) if matches.source else None
            found = match_colmap(path, evidence, progress) if match else matches
            usable = verified(path, found, geometry, progress)
            digests = digests_of(path, features)
            read, judging = reading.costs("reading and verification"), Clock()
            verdicts: list[PairVerdict] = []
            if disambiguate:
                source = source_of(path, usable, "its pairs of images cannot be judged")
                usable, verdicts = without_wrong_pairs(usable, source.keypoints(), progress)
                texts += not_verified(source)
            judged, working = judging.costs("look-alike pairs"), Clock()
            result: Matches = (
                _only_verified(usable, geometry)
                if method is None
                else synchronise(usable, method, universe_size, theta, seed, progress, **options)
            )
            worked = working.costs("synchronisation")
            written = result if kind is NPZ else choose(result, added)
            if is_new_database(kind, out):
                _write_new_database(folder / out.name, written, images)
            else:
                kind.write(written, folder / out.name)
        change, comparing = compare(matches, written), Clock()
        estimate = _estimate(matches, usable, result, written)
        remarks = _remarks(result, written, change, folder / out.name, estimate)
        graph = graph_of_images(result, estimate.confidence)
        texts += graph_warnings(graph, names_of(result))
        costs = [read, *([judged] if disambiguate else []), worked, comparing.costs("estimates")]
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
            verdicts,
            clock.provenance(command, digests, costs),
        )
        if isinstance(result, MultiMatching):
            precision = precision_by_track(estimate.confidence, result)
            write_source_tracks(folder / tracks.name, result, result.source, precision)
    if verdicts:
        remarks = [*verdict_sentences(verdicts, names_of(result)), *remarks]
    for text in texts:
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
    kept = tracks if isinstance(result, MultiMatching) else None
    return SynchronisedFile(
        out,
        report,
        kept,
        result,
        change,
        estimate.confidence,
        tuple(remarks),
        estimate.precision,
        verdicts,
    )


def _check_new_database(out: Path, images: Path | str | None) -> None:
    """Raise NmfsyncError if matches of hloc cannot become a COLMAP database."""
    if images is None:
        raise NmfsyncError(
            f"{out}: COLMAP needs the cameras of the photographs: name their folder with --images; "
            f"or write matches of hloc, {out.with_suffix('.h5').name}"
        )
    optional("pycolmap", "colmap")


def _write_new_database(path: Path, matches: Matches, images: Path | str | None) -> None:
    """Write matches of hloc to a COLMAP database that mappers read at once."""
    source = matches.source
    assert source is not None
    assert images is not None
    new = new_images(source.names, source.keypoints(), Path(images))
    write_new_database(path, new, matches, verified=source.verified)


def _offer_to_merge(matches: PairwiseMatches) -> None:
    """Warn if keypoints belong to pairs of images: then there are no tracks to make consistent."""
    if isinstance(matches.source, ColmapSource) and belong_to_pairs(matches):
        text = (
            f"{matches.source.path}: no keypoint has matches in two images, as a detector-free "
            "matcher leaves them; nmfsync merge makes shared keypoints of them first"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=3)


def _only_verified(matches: PairwiseMatches, geometry: str | None) -> PairwiseMatches:
    """Return verified matches as a result, which says how it was made."""
    result = matches.with_matrix(matches.W)
    result.settings = {"method": VERIFICATION, "geometry": geometry}
    return result


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
    """Estimate how right the matches of a file are, and those of a result of the usable ones.

    Near-duplicates count as one feature everywhere.
    """
    verified = usable is not matches
    usable, written = usable.contracted(), _counted(written)
    matches = matches.contracted() if verified else usable
    method = (result.settings or {})["method"]
    known, origin = _probabilities(usable)
    before, _ = _probabilities(matches) if verified else (known, origin)
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


def _counted(written: Matches) -> Matches:
    """Return matches in which near-duplicates count as one feature; those of tracks do already."""
    return written if isinstance(written, MultiMatching) else written.contracted()


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
    if duplicates := result.duplicate_count:
        remarks.append(
            f"{duplicates:,} features are near-duplicates: less than 3 pixels from another feature "
            "of their image, with the same neighbours, as at other scales or orientations of one "
            "point. They count as one feature with it here, and keep their matches in the file."
        )
    if left := result.match_count - _counted(written).match_count:
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
