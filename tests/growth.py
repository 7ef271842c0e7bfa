"""Problems of many images, whose matches grow in proportion to them."""

import numpy as np

from nmfsync import Features, PairwiseMatches


def chain(k) -> PairwiseMatches:
    """One feature in each image, matched with that of the next one."""
    return PairwiseMatches.from_entries(np.arange(k - 1), np.arange(1, k), np.ones(k, np.int64))


def one_track(k) -> PairwiseMatches:
    """One feature in each image, matched with those of the next five."""
    pairs = [(np.arange(k - step), np.arange(step, k)) for step in range(1, 6)]
    p, q = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return PairwiseMatches.from_entries(p, q, np.ones(k, np.int64))


def star(k) -> PairwiseMatches:
    """One feature in each image, all matched with that of the last image."""
    return PairwiseMatches.from_entries(
        np.arange(k - 1), np.full(k - 1, k - 1), np.ones(k, np.int64)
    )


def video(k, features=20, window=10, life=30, wrong=0.2) -> PairwiseMatches:
    """Frames, each matched with the next ten (`window`); a point stays for 30 frames (`life`).

    A fifth of the matches are shuffled within their pair of frames.
    """
    rng = np.random.default_rng(0)
    slot = np.arange(features)
    point = slot + features * ((np.arange(k)[:, None] + slot * life // features) // life)
    left, right = [], []
    for step in range(1, window + 1):
        i, a = np.divmod(np.arange((k - step) * features), features)
        b, shuffled = a.copy(), np.flatnonzero(rng.random(len(a)) < wrong)
        b[shuffled] = a[shuffled[np.lexsort((rng.random(len(shuffled)), i[shuffled]))]]
        kept = (point[i, a] == point[i + step, b]) | (a != b)
        left.append((i * features + a)[kept])
        right.append(((i + step) * features + b)[kept])
    return PairwiseMatches.from_entries(
        np.concatenate(left), np.concatenate(right), np.full(k, features)
    )


def frames(k, features=24, life=30) -> list[Features]:
    """Features of the frames of a video: descriptors of points, with noise; see `video`."""
    rng = np.random.default_rng(0)
    slot = np.arange(features)
    point = slot + features * ((np.arange(k)[:, None] + slot * life // features) // life)
    descriptors = rng.integers(20, 236, (point.max() + 1, 128), np.int16)
    return [
        Features(
            xy=np.column_stack([40 * slot, np.full(features, 100 + i % life)]).astype(np.float32),
            descriptors=(descriptors[seen] + rng.integers(-20, 21, (features, 128))).astype(
                np.uint8
            ),
            scale=np.full(features, 4, np.float32),
            orientation=np.zeros(features, np.float32),
            image_size=(40 * features, 200),
            keypoints=features,
            positions=features,
        )
        for i, seen in enumerate(point)
    ]


def nearly_empty(k) -> PairwiseMatches:
    """One match; all other images have no features."""
    return PairwiseMatches.from_entries([0], [1], [1, 1, *[0] * (k - 2)])


FAMILIES = {f.__name__: f for f in (chain, one_track, star, video, nearly_empty)}
