"""Pages with the viewer alone: the real templates around tiny arrays written by hand."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nmfsync.report.page import environment

# Type of every array, as the scripts read them.
TYPES = {
    "u8": "match_verdict match_probability track_pairs track_pair_probability "
    "contradiction_probability contradiction_verdict",
    "u16": "feature_image pair_i pair_j match_methods member_right member_judged",
    "u32": "feature_number pair_matches pair_kept pair_judged pair_right pair_total pair_first "
    "match_a match_b track_first track_members track_right track_judged track_component "
    "track_pair_first contradiction_first contradiction_a contradiction_b contradiction_taken "
    "track_contradictions track_number "
    "component_features component_images component_matches component_removed component_tracks",
    "f32": "feature_x feature_y feature_scale feature_orientation pair_estimated match_error "
    "match_epipolar match_ratio track_error track_probability member_probability",
}
NUMPY = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}
INPUT = {"key": "input", "name": "input", "colour": "#333333", "consistent": False}
METHOD = {"key": "good", "name": "Good", "colour": "#0072b2", "consistent": True}

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>viewer</title>
<style>
:root { --paper: #fff; --ink: #1c2126; --soft: #5b6670; --line: #e3e7ea; --wash: #f6f8f9;
  --blue: #0072b2; --right: #00785a; --wrong: #b84c00; --unknown: #5b6670; --added: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --paper: #15191d; --ink: #e6eaee; --soft: #a3adb7;
  --line: #343b42; --wash: #1e2429; --blue: #6db8ea; --right: #3ecf9f; --wrong: #ff9a52;
  --unknown: #a3adb7; --added: #6db8ea; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 66rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 sans-serif; }
{% include "viewer/viewer.css" ignore missing %}
{% include "viewer/tracks.css" ignore missing %}
</style>
<body>
{% from "viewer/viewer.html" import viewer %}
{{ viewer(data) }}
</body>
</html>"""


def photograph(width: int = 80, height: int = 60, grey: int = 128) -> str:
    """Return a plain photograph as a data URL."""
    buffer = BytesIO()
    Image.new("L", (width, height), grey).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def images(*names: str, width: int = 80, height: int = 60) -> list[dict[str, Any]]:
    """Return images with photographs of one size, by their names."""
    size = {"width": width, "height": height, "source": photograph(width, height)}
    return [{"name": name, "label": name.removesuffix(".png"), **size} for name in names]


def data(arrays: Mapping[str, Sequence[Any]], **head: Any) -> dict[str, Any]:
    """Return what a page holds: arrays (those left out are empty) and head fields over defaults."""
    return {
        "images": images("a.png", "b.png", "c.png"),
        "methods": [INPUT, METHOD],
        "tracks": "good",
        "truth": "homographies",
        "cameras": False,
        "threshold": 0.01,
        "tracks_left_out": 0,
        "pairs_left_out": 0,
        **head,
        "arrays": _packed(arrays),
    }


def write_page(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a page with the viewer of this content (see `data`)."""
    text = json.dumps(content).replace("<", "\\u003c")
    path.write_text(environment().from_string(PAGE).render(data=text), encoding="utf-8")
    return path


def _packed(arrays: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    kinds = {name: kind for kind, names in TYPES.items() for name in names.split()}
    unknown = sorted(set(arrays) - set(kinds))
    assert not unknown, f"no such arrays: {unknown}"
    return {
        name: _pack(arrays.get(name, [0] if name.endswith("_first") else []), kind)
        for name, kind in kinds.items()
    }


def _pack(values: Sequence[Any], kind: str) -> dict[str, str]:
    content = np.asarray(values).astype(NUMPY[kind]).tobytes()
    return {"type": kind, "data": base64.b64encode(zlib.compress(content)).decode()}
