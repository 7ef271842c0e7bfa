"""The descriptors in a COLMAP database, matched anew with evidence in place of a ratio test."""

from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.colmap import ColmapSource, read_colmap
from nmfsync.exchange.formats import COLMAP, format_of
from nmfsync.matching.match import match
from nmfsync.matching.pairs import all_pairs
from nmfsync.run.settings import EVIDENCE
from nmfsync.synchronisation.duplicates import mark_duplicates
from nmfsync.types.matches import PairwiseMatches


def match_colmap(
    path: Path | str, evidence: float = EVIDENCE, progress: bool = True
) -> PairwiseMatches:
    """Match the SIFT descriptors in a COLMAP database anew, by evidence.

    The matches in the database are not used, only the pairs of images that were
    matched; all pairs, if none were. Verify the matches before they go to a mapper,
    see `verify`.

    Parameters
    ----------
    path : Path or str
        The database, which is not changed.
    evidence : float
        Keep matches that are right with at least this probability.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    PairwiseMatches
        The weight of a match is the probability that it is right, see `match`. Near-duplicates
        are marked. `to_colmap` writes them to a copy of the database.

    Raises
    ------
    NmfsyncError
        If the file is no COLMAP database, or its descriptors are missing or not SIFT's.
    """
    path = Path(path)
    check_evidence(evidence)
    if format_of(path) is not COLMAP:
        raise NmfsyncError(
            f"{path}: only {COLMAP.name} has descriptors to match; leave out --match"
        )
    source = read_colmap(path, verified=False).source
    assert isinstance(source, ColmapSource)
    pairs = source.tried_pairs()
    features = source.features()
    chosen = pairs if len(pairs) else all_pairs(len(features))
    matches = match(features, weighted=True, progress=progress, pairs=chosen)
    matches.source = source
    return mark_duplicates(matches.at_least(evidence), [f.xy for f in features])


def check_evidence(evidence: float) -> None:
    """Raise NmfsyncError if the least probability of matches is none."""
    if not 0 <= evidence <= 1:
        raise NmfsyncError(f"evidence must be a probability from 0 to 1, got {evidence}")
