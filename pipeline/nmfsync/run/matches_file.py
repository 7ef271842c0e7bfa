"""A file of matches made consistent."""

from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.tracks import Change
from nmfsync.exchange.colmap import ColmapSource, count_verified
from nmfsync.matching.verification import verify as verify_matches
from nmfsync.types.matches import Matches, PairwiseMatches


def _verified(matches: PairwiseMatches, model: str | None) -> PairwiseMatches:
    if model is None:
        return matches
    if matches.source is None:
        raise NmfsyncError("--verify needs positions, which an .npz file of matches has not")
    return verify_matches(matches, matches.source.xy(), model)


def _remarks(result: Matches, written: Matches, change: Change, made: Path) -> list[str]:
    """Say what the figures of a change do not."""
    remarks = []
    if left := (result.W.nnz - written.W.nnz) // 2:
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
