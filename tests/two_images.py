"""Two images whose matches can be judged by hand."""

import numpy as np

from builders import make_features
from nmfsync import MultiMatching
from nmfsync.types.truth import Homographies


def images_with(*images, size=(101, 51)):
    """Make features at these positions, in images of 101 × 51 pixels."""
    return [make_features(np.reshape(xy, (-1, 2)), image_size=size) for xy in images]


def shifted_by(dx, k=2, size=(101, 51)):
    """Truth: image i shows everything i·dx pixels further right."""
    maps = np.array([[[1, 0, i * dx], [0, 1, 0], [0, 0, 1]] for i in range(k)], dtype=float)
    return Homographies(maps, np.array([size] * k))


# Two images: feature 0 moves by 10 px to feature 2, as in the truth; feature 1
# should move to (60, 20) but its partner, feature 3, lies 5 px beside that.
TWO = images_with([(10, 10), (50, 20)], [(20, 10), (65, 20)])
TWO_MATCHES = MultiMatching([0, 1, 0, 1], [2, 2])
