"""
Learned features, from hloc's files
===================================

Matches of learned features (ALIKED, SuperPoint, DISK) made consistent, as hloc stores them. Learned
matchers come without a ratio test, so their matches contradict each other more than those of SIFT.

This needs ``pip install 'nmfsync[hloc]'``. Networks have to be downloaded, which this script
does not do: ORB plays their part, and only the files are those of hloc.
"""

import tempfile
from itertools import combinations
from pathlib import Path

import cv2
import h5py
import matplotlib.pyplot as plt
import numpy as np

import nmfsync
from nmfsync import evaluation

# %%
# Files as hloc writes them
# -------------------------
#
# With hloc, two commands write these files::
#
#     python -m hloc.extract_features --conf aliked-n16 --image_dir photos --export_dir .
#     python -m hloc.match_features --conf NN-mutual ...
#
# Here, ORB describes some hundred points of each of the six views of the sample. Nearest
# neighbours in both directions match, and their score is how similar they are.

scene = nmfsync.load_scene("sample/astronaut")
orb = cv2.ORB_create(nfeatures=400)
found = [orb.detectAndCompute(image, None) for image in scene.images]
xy = [np.array([point.pt for point in points], np.float32) for points, _ in found]

folder = Path(tempfile.mkdtemp())
with h5py.File(folder / "features.h5", "w") as file:
    for name, positions, image in zip(scene.names, xy, scene.images, strict=True):
        file[f"{name}/keypoints"] = positions
        file[f"{name}/image_size"] = image.shape[1::-1]

nearest = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True)
with h5py.File(folder / "matches.h5", "w") as file:
    for i, j in combinations(range(len(xy)), 2):
        matches = np.full(len(xy[i]), -1, np.int32)
        scores = np.zeros(len(xy[i]), np.float16)
        for match in nearest.match(found[i][1], found[j][1]):
            matches[match.queryIdx] = match.trainIdx
            scores[match.queryIdx] = 1 - match.distance / 256
        pair = f"{scene.names[i]}/{scene.names[j]}"
        file[f"{pair}/matches0"] = matches
        file[f"{pair}/matching_scores0"] = scores

# %%
# Made consistent
# ---------------
#
# In the shell::
#
#     nmfsync synchronise matches.h5 --features features.h5 -o consistent.h5
#
# Scores of a matcher are no probabilities. How often matches with such a score close cycles says
# what a score means, and ``synchronise`` weighs them by that.

done = nmfsync.synchronise_file(
    folder / "matches.h5", folder / "consistent.h5", features=folder / "features.h5"
)
print(f"{done.change.kept} matches kept, {done.change.removed} removed")
print(f"written: {', '.join(sorted(path.name for path in folder.iterdir()))}")

# %%
# The sample has a ground truth, so it can be said how many of them are right.

features = [
    nmfsync.Features(
        xy=positions,
        descriptors=np.zeros((len(positions), 128), np.uint8),
        scale=np.ones(len(positions), np.float32),
        orientation=np.zeros(len(positions), np.float32),
        image_size=image.shape[1::-1],
        keypoints=len(positions),
        positions=len(positions),
    )
    for positions, image in zip(xy, scene.images, strict=True)
]
for name in ("matches.h5", "consistent.h5"):
    some = nmfsync.PairwiseMatches.from_hloc(folder / name, folder / "features.h5")
    errors = evaluation.match_errors(some, features, scene.truth)
    right = evaluation.precision_at(errors, [0.01])[0]
    print(f"{name:14} {some.match_count:5} matches, {right:.0%} of the judged ones right at 1 %")

# %%
# The matches of the first and the last view, before and after:

figure, panels = plt.subplots(2, 1, figsize=(8, 8), layout="constrained")
wide = scene.images[0].shape[1]
for axes, name in zip(panels, ("matches.h5", "consistent.h5"), strict=True):
    some = nmfsync.PairwiseMatches.from_hloc(folder / name, folder / "features.h5")
    pair = next(pair for pair in some.by_image_pair() if (pair.i, pair.j) == (0, 5))
    axes.imshow(np.hstack([scene.images[0], scene.images[5]]))
    ends = xy[0][pair.rows[:, 0]], xy[5][pair.rows[:, 1]] + [wide, 0]
    axes.plot(*np.stack(ends).transpose(2, 0, 1), linewidth=0.8)
    axes.set_title(f"{name}: {len(pair.rows)} matches")
    axes.set_axis_off()

# %%
# For a mapper, verify first: ``nmfsync synchronise matches.h5 --features features.h5 --verify
# fundamental -o consistent.h5``. hloc's ``reconstruction`` then takes ``consistent.h5`` as its
# matches.
