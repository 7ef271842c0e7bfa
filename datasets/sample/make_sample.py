"""Render the built-in sample: six views of one photograph, with exact homographies.

A virtual camera looks at a plane that shows the photograph, from six places.
Each view then goes through what a real picture goes through: defocus, exposure
and gamma, noise, and JPEG. Because the plane is flat and the camera is known,
the homographies between the views are exact.

    python make_sample.py FOLDER
"""

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage.data import astronaut

SIZE = (480, 480)  # width and height of every view, in pixels
FOCAL = 600.0  # in pixels: about the angle of view of a telephone
SUPERSAMPLING = 4  # each view is rendered this much finer, then averaged
MARGIN = 768  # width of the blurred surroundings of the photograph, in its pixels


class View(NamedTuple):
    """Where the camera stands, and what its lens and sensor do."""

    tilt: float  # degrees between the line of sight and the normal of the plane
    azimuth: float  # degrees: the side of the plane from which the camera looks
    roll: float  # degrees of rotation about the line of sight
    distance: float  # 1: the photograph just fills a frontal view
    blur: float = 0.6  # standard deviation of the defocus, in pixels
    gain: float = 1.0  # exposure
    gamma: float = 1.0
    noise: float = 5.0  # standard deviation of the sensor noise, in grey levels


VIEWS = (
    View(tilt=0, azimuth=0, roll=0, distance=1.06, noise=3.0),
    View(tilt=32, azimuth=10, roll=-8, distance=1.05, gain=1.08),
    View(tilt=52, azimuth=200, roll=-28, distance=1.0, blur=1.0, gain=0.8),
    View(tilt=25, azimuth=300, roll=64, distance=1.6, noise=8.0),
    View(tilt=20, azimuth=80, roll=-42, distance=0.75, blur=1.8, gamma=1.3, noise=6.0),
    View(tilt=58, azimuth=95, roll=105, distance=1.2, gain=0.7, noise=8.0),
)


@cache
def plane() -> NDArray[np.float32]:
    """Return the photograph amid soft surroundings, which hold no features of their own.

    Everything lies on the plane, so the homographies hold for the surroundings too.
    """
    photo = astronaut().astype(np.float32)
    margins = ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))
    around = cv2.GaussianBlur(np.pad(photo, margins, mode="reflect"), (0, 0), 40)
    inside = np.zeros(around.shape[:2], np.float32)
    inside[MARGIN + 12 : -MARGIN - 12, MARGIN + 12 : -MARGIN - 12] = 1
    inside = cv2.GaussianBlur(inside, (0, 0), 5)[:, :, None]
    sharp = np.pad(photo, margins, mode="edge")
    return inside * sharp + (1 - inside) * around


def rotation(axis: str, degrees: float) -> NDArray[np.float64]:
    """Return the rotation matrix about the x-axis or the z-axis."""
    vector = np.array([axis == "x", 0, axis == "z"], dtype=np.float64)
    return cv2.Rodrigues(vector * np.deg2rad(degrees))[0]


def homography(view: View) -> NDArray[np.float64]:
    """Map pixels of the photograph (512 × 512) to pixels of the view: K [r₁ r₂ t]."""
    # Turn the azimuth's side up, tilt the plane there, and turn back.
    R = rotation("z", view.roll - view.azimuth) @ rotation("x", view.tilt)
    R = R @ rotation("z", view.azimuth)
    K = np.array([[FOCAL, 0, (SIZE[0] - 1) / 2], [0, FOCAL, (SIZE[1] - 1) / 2], [0, 0, 1]])
    t = [0, 0, view.distance * FOCAL * 512 / SIZE[0]]
    to_centre = np.array([[1, 0, -255.5], [0, 1, -255.5], [0, 0, 1]])
    H = K @ np.column_stack([R[:, 0], R[:, 1], t]) @ to_centre
    return H / H[2, 2]


def render(view: View, seed: int) -> NDArray[np.uint8]:
    """Render one view, (480, 480, 3) uint8 RGB, before JPEG."""
    s = SUPERSAMPLING
    finer = np.array([[s, 0, (s - 1) / 2], [0, s, (s - 1) / 2], [0, 0, 1]])
    from_margin = np.array([[1, 0, -MARGIN], [0, 1, -MARGIN], [0, 0, 1]])
    H = finer @ homography(view) @ from_margin
    large = cv2.warpPerspective(
        plane(),
        H,
        (SIZE[0] * s, SIZE[1] * s),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    image = large.reshape(SIZE[1], s, SIZE[0], s, 3).mean(axis=(1, 3))
    image = cv2.GaussianBlur(image, (0, 0), view.blur)
    image = 255 * (np.clip(view.gain * image, 0, 255) / 255) ** view.gamma
    # Shot noise: dark pixels are a little cleaner than bright ones.
    strength = view.noise * np.sqrt(0.3 + 0.7 * image / 255)
    image = image + strength * np.random.default_rng(seed).standard_normal(image.shape)
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def main(folder: Path) -> None:
    """Write img1.jpg … img6.jpg and H1to2p … H1to6p."""
    folder.mkdir(parents=True, exist_ok=True)
    frontal = np.linalg.inv(homography(VIEWS[0]))
    for number, view in enumerate(VIEWS, start=1):
        image = Image.fromarray(render(view, seed=number))
        image.save(folder / f"img{number}.jpg", quality=88)
        if number > 1:
            H = homography(view) @ frontal
            np.savetxt(folder / f"H1to{number}p", H / H[2, 2], fmt="%.17g")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
