"""
Your own method beside ours
===========================

A method is a function. This example writes one, compares it with the others, and takes the matches
of another program in and out.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import nmfsync
from nmfsync import evaluation

# %%
# The method
# ----------
#
# Take the matches by descending weight. Each joins the tracks of its two features, unless the
# joined track would hold two features of one image. It is union-find that looks before it joins.


def heaviest_first(matches, universe_size, theta, seed):
    """Join tracks along the heaviest matches first, as far as images allow."""
    entries = sparse.triu(matches.W, k=1).tocoo()
    order = np.argsort(-entries.data, kind="stable")
    track = list(range(len(matches.image_of)))  # of every feature
    members = [{p} for p in track]  # of every track
    images = [{i} for i in matches.image_of.tolist()]
    for p, q in zip(entries.row[order].tolist(), entries.col[order].tolist(), strict=True):
        a, b = track[p], track[q]
        if a != b and not images[a] & images[b]:
            for r in members[b]:
                track[r] = a
            members[a] |= members[b]
            images[a] |= images[b]
    return nmfsync.MultiMatching(track, matches.sizes)


# %%
# ``MultiMatching`` checks that no two features of an image share a track: a method that returns one
# is consistent, or raises an error.
#
# Beside the others
# -----------------
#
# Once it has a name in ``METHODS``, it works like the methods that are built in: in
# ``synchronise``, and in every run, report and study.

nmfsync.METHODS["heaviest-first"] = heaviest_first

scene = nmfsync.load_scene("sample/astronaut")
features = nmfsync.extract_all(scene.paths, features=200)
matches = nmfsync.match(features, weighted=True)
results = {"input": matches}
for name in ("heaviest-first", "clustersync", "nmfsync", "clear"):
    results[name] = nmfsync.synchronise(matches, name)

# %%
# The more matches are right (FCM) and the fewer are wrong (precision), the better: up and to the
# right.

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, result in results.items():
    errors = evaluation.match_errors(result, features, scene.truth)
    x = evaluation.fcm(errors, result.sizes, [0.01])[0]
    y = evaluation.precision_at(errors, [0.01])[0]
    print(f"{name:15} FCM {x:.1%}, precision {y:.1%}")
    axes.plot(x, y, "o", markersize=9)
    axes.annotate(name, (x, y), xytext=(8, -3), textcoords="offset points")
axes.set(xlabel="FCM at 1 %", ylabel="precision at 1 %")
axes.spines[["top", "right"]].set_visible(False)
axes.margins(0.2)

# %%
# It finds the most right matches, and adds the most wrong ones: whatever does not contradict an
# image is believed, however few other matches agree with it.

# %%
# Matches of another program
# --------------------------
#
# Whatever makes the matches, pairs of features and the number of features in every image are
# enough. Here three images have two features each, counted through all images: 0 and 1, 2 and 3, 4
# and 5.

p = [0, 1, 2, 3, 0]
q = [2, 3, 4, 5, 4]
weights = [0.9, 0.8, 0.9, 0.7, 0.6]
matches = nmfsync.PairwiseMatches.from_entries(p, q, sizes=[2, 2, 2], weights=weights)
out = Path(tempfile.mkdtemp())
matches.save(out / "matches.npz")

# %%
# ``synchronise_file`` does what ``nmfsync synchronise`` does, for ``.npz`` files, COLMAP databases
# and files of hloc alike. Beside the result it writes the tracks and a report of what changed.

nmfsync.synchronise_file(out / "matches.npz", out / "consistent.npz")
with np.load(out / "consistent.npz") as result:
    print("universe feature of every feature:", result["universe"])
print((out / "consistent.npz.tracks.csv").read_text())
