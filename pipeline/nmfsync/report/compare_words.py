"""What a comparison says: names, figures and sentences, for its page and the terminal."""

from collections.abc import Iterable, Sequence

from nmfsync.evaluation.comparison import Comparison, Contrast
from nmfsync.evaluation.differences import LEVEL, METRICS, Difference, Metric
from nmfsync.report.figures.style import style_of
from nmfsync.report.page import count, decimal, joined, percent

MOST_NAMES = 4  # in a sentence


def name_of(comparison: Comparison, side: str) -> str:
    """Return the name of a side: of a method as in figures, of a run its label."""
    return style_of(side).name if comparison.between_methods else side


def subject_of(comparison: Comparison, subject: str) -> str:
    """Return the name of what two sides share."""
    return subject if comparison.between_methods else style_of(subject).name


def capital(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def value_text(metric: Metric, value: float | None) -> str:
    """Write a figure of one side."""
    if metric.kind == "share":
        return percent(value)
    if metric.key == "matches" and value is not None:
        return count(value)
    return decimal(value)


def change_text(metric: Metric, value: float) -> str:
    """Write a difference: of shares in percentage points, with a sign; or a ratio, as ×1.20."""
    if metric.kind == "ratio":
        return f"×{value:.2g}" if value < 0.1 else "×∞" if value > 1e6 else f"×{decimal(value)}"
    value = 100 * value if metric.kind == "share" else value
    most = 10 if metric.key == "matches" else 100  # what has no decimals
    digits = 2 if abs(value) < 1 else 1 if abs(value) < most else 0
    text = f"{value:+,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else "0"


def interval_text(difference: Difference) -> str:
    """Write an interval: +0.4 to +2.1."""
    if difference.interval is None:
        return "–"
    return " to ".join(change_text(difference.metric, value) for value in difference.interval)


def sign_text(difference: Difference) -> str:
    """Say what the interval says: better, worse, higher or lower, or nothing."""
    names = {1: ("higher", "better", "worse"), -1: ("lower", "worse", "better")}
    if not difference.sign:
        return ""
    return names[difference.sign][difference.metric.better]


def verdicts(comparison: Comparison) -> list[str]:
    """Return a sentence for every side but the first: what differs, and what may be chance."""
    return [_verdict(comparison, side) for side in comparison.sides[1:]]


def _verdict(comparison: Comparison, side: str) -> str:
    contrasts = [contrast for contrast in comparison.contrasts if contrast.side == side]
    if not contrasts:
        return f"{side} shares no method with {comparison.sides[0]}."
    names = name_of(comparison, comparison.sides[0]), name_of(comparison, side)
    scenes = {scene for c in contrasts for d in c.differences.values() for scene in d.scenes}
    number = "one scene" if len(scenes) == 1 else f"{count(len(scenes))} scenes"
    if _are_equal(contrasts):
        return f"{names[0]} and {names[1]} have the same figures on {number}, costs apart."
    measured = any("fcm" in contrast.differences for contrast in contrasts)
    keys = ("fcm", "precision") if measured else ("estimated_precision",)
    if len(scenes) == 1:
        return _of_one_scene(comparison, _headline(comparison, contrasts), keys)
    parts = [part for key in keys for part in _signs(comparison, contrasts, key)]
    titles = " and ".join(_title(key) for key in keys)
    level = f"{LEVEL:.0%}".replace("%", " %")
    if not parts:
        return (
            f"On {number}, no difference in {titles} between {names[0]} and {names[1]} is more "
            f"than chance may explain ({level} intervals)."
        )
    found = f"On {number}, {names[1]} differs from {names[0]}: {'; '.join(parts)}."
    all_sure = all(c.differences[k].sign for c in contrasts for k in keys if k in c.differences)
    return found if all_sure else f"{found} The other {level} intervals of {titles} contain 0."


def _are_equal(contrasts: Iterable[Contrast]) -> bool:
    found = (d for contrast in contrasts for d in contrast.differences.values())
    return all(d.before == d.after for d in found if d.metric.kind != "ratio")


def _headline(comparison: Comparison, contrasts: Sequence[Contrast]) -> Contrast:
    """Return the contrast of the method whose tracks a run shows, or else the last one."""
    shown_tracks = {e.tracks for run in comparison.runs for e in run.evaluations.values()}
    return next((c for c in contrasts if c.subject in shown_tracks), contrasts[-1])


def _of_one_scene(comparison: Comparison, contrast: Contrast, keys: Sequence[str]) -> str:
    names = name_of(comparison, comparison.sides[0]), name_of(comparison, contrast.side)
    parts = [
        f"{_title(key)} is {value_text(d.metric, d.after[0])} instead of "
        f"{value_text(d.metric, d.before[0])}"
        for key in keys
        if (d := contrast.differences.get(key))
    ]
    method = "" if comparison.between_methods else f", with {style_of(contrast.subject).name}"
    known = " and ".join(parts) or f"no {' or '.join(map(_title, keys))} is known"
    return f"{names[1]} beside {names[0]}{method}: {known}."


def _signs(comparison: Comparison, contrasts: Sequence[Contrast], key: str) -> list[str]:
    """Say for which methods a metric is higher, and for which it is lower."""
    parts = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        found = [c for c in contrasts if key in c.differences and c.differences[key].sign == sign]
        if found and comparison.between_methods:
            parts.append(f"{_title(key)} is {word}")
        elif found:
            methods = listed([style_of(c.subject).name for c in found])
            parts.append(f"{_title(key)} is {word} with {methods}")
    return parts


def _title(key: str) -> str:
    return next(metric.title for metric in METRICS if metric.key == key)


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Join names: a, b and c; of more than `most`, say how many more there are."""
    kept = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most:,} more"]
    return joined(kept)


def multiplicity(comparison: Comparison) -> str:
    """Say how many intervals there are, and how many would miss 0 by chance; "" without any."""
    known = [d for d in comparison.differences if d.interval and d.before != d.after]
    if not known:
        return ""
    expected = (1 - LEVEL) * len(known)
    found = sum(d.sign != 0 for d in known)
    return (
        f"{count(found)} of {count(len(known))} intervals exclude 0 (1 for ratios). If nothing "
        f"differed, about {decimal(expected)} would do so by chance: a single one proves little."
    )
