"""
From photographs to tracks
==========================

The whole way on the built-in sample, six views of one photograph: first step by step, then with one
call that also writes the report.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nmfsync
from nmfsync import evaluation

# %%
# Step by step
# ------------
#
# A scene is a list of images, and its ground truth if there is any. ``load_scene`` takes the name
# of a data set's scene, or a folder of your own images.

scene = nmfsync.load_scene("sample/astronaut")
print(scene.names, scene.truth.kind)

figure, panels = plt.subplots(1, 6, figsize=(12, 2.2), layout="constrained")
for axes, image, label in zip(panels, scene.images, scene.labels, strict=True):
    axes.imshow(image)
    axes.set_axis_off()
    axes.set_title(label)

# %%
# SIFT finds features, and mutual nearest neighbours of all pairs of images become matches. Each
# gets a weight, the probability that it is right.

features = nmfsync.extract_all(scene.paths, features=100)
matches = nmfsync.match(features, weighted=True)
print(matches, f"{(matches.W.nnz - len(matches.image_of)) // 2} matches")

# %%
# Matches of one pair know nothing of the others. Followed around three images, many do not come
# back to where they began. ``synchronise`` makes them agree.

result = nmfsync.synchronise(matches)
for name, some in {"input": matches, "clustersync": result}.items():
    errors = evaluation.match_errors(some, features, scene.truth)
    right = evaluation.precision_at(errors, [0.01])[0]
    cycles = evaluation.cycle_error(some.W, some.sizes)
    print(f"{name:12} cycle-error {cycles:.2f}, {right:.0%} of the judged matches right at 1 %")

# %%
# A track is one point of the scene, seen in two or more images.

tracks = result.tracks()
lengths = np.bincount([len(track) for track in tracks])
print(f"{len(tracks)} tracks:", {n: int(count) for n, count in enumerate(lengths) if count})
image, feature = tracks[0][0]
print(f"the first one begins in {scene.names[image]} at {features[image].xy[feature]}")

# %%
# In one call, with a report
# --------------------------
#
# ``run_scene`` does all this for several methods, and writes ``report.html`` with its pictures,
# ``evaluation.json`` and ``tracks.csv``. It keeps finished stages, so that a second call with other
# methods repeats nothing.

out = Path(tempfile.mkdtemp())
settings = nmfsync.Settings(methods=("clustersync", "unionfind"), features=100)
summary = nmfsync.run_scene("sample/astronaut", settings, out)
for method, figures in summary.methods.items():
    print(f"{method:12} FCM {figures.fcm['0.01']:.1%}, precision {figures.precision['0.01']:.1%}")


def show(name):
    """Show a picture of the report, pixel by pixel."""
    picture = plt.imread(out / "sample" / "astronaut" / name)
    height, width = picture.shape[:2]
    plt.figure(figsize=(width / 100, height / 100), dpi=100).figimage(picture)


# %%
# How many matches are right, over the distance that counts as right:

show("fcm.png")

# %%
# The same for a paper, as wide as a column, with the methods that it is about. ``save`` writes PDF
# and SVG as well.

figure = nmfsync.plot.fcm(summary, methods=("input", "clustersync"))
nmfsync.plot.save(figure, out / "sample" / "astronaut" / "paper.png")
show("paper.png")

# %%
# The matrix *W* before and after, one block for every pair of images. Orange matches went, blue
# ones are new:

show("matrix.png")

# %%
# The matches of the first and the last view, a panel for every method. Green ones are right, orange
# ones wrong:

show("overlay-1-6.png")

# %%
# Some of the tracks:

show("overlay-tracks.png")
