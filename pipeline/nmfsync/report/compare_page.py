"""The page that compares runs, or methods of one run."""

from pathlib import Path

from nmfsync.evaluation.comparison import Comparison
from nmfsync.report.compare_settings import differing_settings, remarks
from nmfsync.report.compare_tables import groups, scene_rows
from nmfsync.report.compare_words import multiplicity, name_of, verdicts
from nmfsync.report.figures.comparison import (
    CURVES,
    FEW,
    comparison_figure,
    curve_at,
    scenes_with_curves,
    sides_with_figures,
)
from nmfsync.report.figures.style import HEADLINE, default_look, style_of, to_png
from nmfsync.report.page import Picture, count, environment, percent, write_bytes
from nmfsync.types.arrays import FloatArray

# The end of every page, which tells it from files of others.
_MARK = b"<!-- written by nmfsync compare -->\n"


@default_look()
def write_compare_page(path: Path, comparison: Comparison) -> None:
    """Write a self-contained page about what differs between runs or methods.

    Parameters
    ----------
    path : Path
        The HTML file to write.
    comparison : Comparison

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    titles, rows = scene_rows(comparison)
    names = [name_of(comparison, side) for side in comparison.sides]
    html = (
        environment()
        .get_template("compare.html")
        .render(
            heading=" and ".join(names) if len(names) == 2 else ", ".join(names),
            names=names,
            run="" if not comparison.between_methods else comparison.runs[0].label,
            scenes=comparison.scenes,
            methods=comparison.methods,
            method_keys=comparison.methods,
            verdicts=verdicts(comparison),
            remarks=remarks(comparison),
            settings=differing_settings(comparison),
            groups=groups(comparison),
            certain=any(d.interval is not None for d in comparison.differences),
            multiplicity=multiplicity(comparison),
            titles=titles,
            scene_rows=rows,
            several=len(names) > 2 and not comparison.between_methods,
            per_metric=len(names) + (len(names) == 2),
            pictures=_curves(comparison),
        )
    )
    write_bytes(path, html.encode() + b"\n" + _MARK)


def is_compare_page(path: Path) -> bool:
    """Say whether a file is a page of a comparison, which a new one may replace."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - len(_MARK), 0))
        return file.read() == _MARK


def _curves(comparison: Comparison) -> list[Picture]:
    """Draw the curves; [] if no scene has those of every side."""
    scenes = scenes_with_curves(comparison)
    if not scenes:
        return []
    sides = "" if comparison.between_methods else ", and the kind of line is the run"
    means = f" Means of {count(len(scenes))} scenes." if len(scenes) > FEW else ""
    caption = (
        f"Over the threshold t; the colour is the method{sides}.{means} Higher is better. Only "
        "scenes on which every side has both curves are drawn."
    )
    png = to_png(comparison_figure(comparison))
    of = f"means of {count(len(scenes))} scenes" if len(scenes) > 1 else scenes[0]
    alt = f"FCM and precision at 1 %, {of}: {_in_words(comparison, scenes)}."
    return [Picture("compare-curves.png", "Correct matchings", caption, png, alt=alt)]


def _in_words(comparison: Comparison, scenes: list[str]) -> str:
    parts = []
    for subject, side in sides_with_figures(comparison):
        shares = [
            percent(_at_headline(curve_at(comparison, curve, (subject, side), scenes)))
            for curve in CURVES
        ]
        run = "" if comparison.between_methods else f" in {side}"
        method = style_of(comparison.method_of(subject, side)).name
        parts.append(f"{method}{run} {' and '.join(shares)}")
    return "; ".join(parts)


def _at_headline(curve: FloatArray) -> float:
    return float(curve[curve[:, 0] == float(HEADLINE), 1][0])
