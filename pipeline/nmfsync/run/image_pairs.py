"""Matches without those of look-alike images: the step between verification and synchronisation."""

from collections.abc import Sequence

from nmfsync.disambiguation.method import judge_image_pairs
from nmfsync.exchange.colmap import ColmapSource
from nmfsync.matching.verification import in_front
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import MultiMatching, PairwiseMatches, Source, StoredKeypoints
from nmfsync.types.verdicts import PairVerdict


def without_wrong_pairs(
    matches: PairwiseMatches, keypoints: Sequence[StoredKeypoints], progress: bool = False
) -> tuple[PairwiseMatches, list[PairVerdict]]:
    """Leave out the matches of pairs of images that show different places.

    Parameters
    ----------
    matches : PairwiseMatches
        Verified ones.
    keypoints : sequence of StoredKeypoints
        Of every image.
    progress : bool

    Returns
    -------
    matches : PairwiseMatches
        Those of the right pairs; of matches that another program verified, those that are not
        behind the cameras (`in_front`).
    verdicts : list of PairVerdict
        Of every pair of images that has matches.
    """
    if matches.source is not None and not matches.source.verified:
        matches = in_front(
            matches,
            [image.xy for image in keypoints],
            progress,
            sizes=[image.image_size for image in keypoints],
        )
    tracks = synchronise(matches, progress=progress)
    assert isinstance(tracks, MultiMatching)
    verdicts = judge_image_pairs(matches, tracks, keypoints)
    wrong = {(v.i, v.j) for v in verdicts if not v.right}
    return (matches.without_image_pairs(wrong) if wrong else matches), verdicts


def not_verified(source: Source) -> list[str]:
    """Warn of matches that were not verified: look-alikes are told by right matches."""
    if source.verified or (isinstance(source, ColmapSource) and not source.unverified):
        return []
    return [
        "the matches are not known to be verified, so verdicts on pairs of images are less sure; "
        "--verify fundamental verifies them"
    ]
