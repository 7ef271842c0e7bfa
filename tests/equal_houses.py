"""Two views of a row of equal houses, as positions of matches."""

import cv2
import numpy as np

SIZE = (768, 512)
K = np.array([[700.0, 0, 383.5], [0, 700, 255.5], [0, 0, 1]])


def houses(right, wrong, noise=0.3):
    """Two views of equal houses in a row, 4 m from one to the next; the camera moves 3 m.

    Matches of the first `right` show one point, those of the others points of two houses,
    which look as if the camera had moved a metre the other way.
    """
    rng = np.random.default_rng(4)
    R = cv2.Rodrigues(np.array([0.02, -0.1, 0.01]))[0]
    points = rng.uniform([-1, -1.5, 7], [2.5, 1.5, 10], (right + wrong, 3))
    seen_later = points + np.where(np.arange(right + wrong)[:, None] < right, 0, [4, 0, 0])
    views = []
    for local in (points, (seen_later - [3, 0, 0]) @ R.T):
        seen = local @ K.T
        views.append(
            (seen[:, :2] / seen[:, 2:] + rng.normal(0, noise, (len(seen), 2))).astype(np.float32)
        )
    return views
