"""How many of the right matches lie in the pairs of images that a choice selects.

python -m pytest -m benchmark tests/benchmarks/test_pairs.py -s
"""

import warnings

import numpy as np
import pytest

from nmfsync import NmfsyncWarning, evaluation, extract_all, load_scene, match
from nmfsync.matching.pairs import all_pairs, sequential_pairs
from nmfsync.matching.similarity import nearest_pairs
from real_data import real_data

pytestmark = pytest.mark.benchmark

# Scene, folder of data, features an image, contrast threshold.
SCENES = (
    ("middlebury/dino", "middlebury/dino", 355, 0.01),
    ("epfl/castle-P30", "epfl", 500, 0.04),
    ("epfl/Herz-Jesu-P25", "epfl", 500, 0.04),
)
LEAST = 8  # matches near their epipolar lines that make a pair of images count


def right_matches(scene, features):
    """(k, k) numbers of matches (ratio 0.8) within 2 pixels of their epipolar lines."""
    matches = match(features, 0.8, progress=False)
    errors = evaluation.epipolar_errors(matches, features, scene.cameras)
    size = max(features[0].image_size)
    right = (errors.error * size <= 2) & (errors.p < errors.q)
    counts = np.zeros((len(features),) * 2)
    image = matches.image_of
    np.add.at(counts, (image[errors.p[right]], image[errors.q[right]]), 1)
    return np.where(counts >= LEAST, counts, 0)


def test_share_of_right_matches():
    print(f"\n{'scene':20}{'nearest':>8}{'pairs':>8}{'share':>8}{'sequential':>12}{'random':>8}")
    for name, folder, limit, contrast in SCENES:
        real_data(folder)
        scene = load_scene(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NmfsyncWarning)
            features = extract_all(scene.paths, limit, contrast=contrast)
        right = right_matches(scene, features)
        k = len(features)
        for neighbours in (5, 10, 20, 40):
            if neighbours > 0.7 * k:
                continue
            nearest = nearest_pairs(features, neighbours, progress=False)
            everything = all_pairs(k)
            chosen = np.random.default_rng(0).permutation(len(everything))[: len(nearest)]
            sequential = sequential_pairs(k, round(len(nearest) / k))
            shares = [
                right[tuple(pairs.T)].sum() / right.sum()
                for pairs in (nearest, sequential, everything[chosen])
            ]
            print(f"{name:20}{neighbours:8}{len(nearest) / len(everything):8.1%}{shares[0]:8.1%}"
                  f"{shares[1]:12.1%}{shares[2]:8.1%}", flush=True)  # fmt: skip
            assert shares[0] > max(shares[1:])
