"""The pictures that the pages of scenes and of data sets share."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.drawing import Drawing, draw
from nmfsync.report.figures.reliability import (
    FEW,
    pooled,
    reliabilities_figure,
    reliability_of,
)
from nmfsync.report.figures.style import style_of
from nmfsync.report.figures.trade_off import TradeOff, trade_off, trade_off_figure
from nmfsync.report.page import Picture, count, percent, whole_percent

_TRADE_OFF_CAPTION = (
    "One point a method; further up and to the right is better. Filled points are cycle-consistent "
    "results, hollow ones are not. The line is the input under a ratio test, which keeps only "
    "matches whose distance ratio is below a limit: what one gets without any synchronisation."
)

_RELIABILITY_CAPTION = (
    "The matches in ten classes, by the estimated probability that they are right, and the share "
    "of each class that is right by the ground truth, within 1 %. On the dotted diagonal "
    f"the estimate is exact; below it, too high. Hollow points have fewer than {FEW} matches. The "
    "bars show how the matches that the truth can judge are spread over the classes."
)


def drawn(pictures: Sequence[Picture], kept: Path | None = None) -> list[Picture]:
    """Return pictures with their PNG.

    Parameters
    ----------
    pictures : sequence of Picture
        Each with its drawing.
    kept : Path, optional
        As for `drawing.draw`.
    """
    files = draw([picture.drawing for picture in pictures if picture.drawing], kept)
    return [replace(picture, png=files[picture.file], drawing=None) for picture in pictures]


def trade_off_picture(evaluations: Sequence[SceneEvaluation]) -> list[Picture]:
    """Plan FCM against precision, means of scenes with truth; [] if no scene has all values."""
    values = trade_off(evaluations)
    if not values.scenes:
        return []
    several = len(evaluations) > 1
    scenes = [one for one in map(trade_off, [[e] for e in evaluations]) if one.scenes]
    verdict = trade_off_sentence(values, scenes if several else ())
    means = f"Means of {count(values.scenes)} scenes." if several else ""
    points = [
        f"{style_of(name).name} {percent(share)} and {percent(precision)}"
        for name, (share, precision) in values.methods.items()
    ]
    return [
        Picture(
            "trade-off.png",
            "FCM and precision at 1 %",
            " ".join(filter(None, [verdict, means, _TRADE_OFF_CAPTION])),
            alt=f"FCM and precision at 1 %: {'; '.join(points)}.",
            drawing=Drawing("trade-off", trade_off_figure, (values,)),
        )
    ]


def trade_off_sentence(values: TradeOff, scenes: Sequence[TradeOff] = ()) -> str:
    """Say which methods do not lie above the curve of the ratio test; "" without a curve.

    Parameters
    ----------
    values : TradeOff
    scenes : sequence of TradeOff
        The scenes one by one, if `values` are means.
    """
    if not values.compared:
        return ""
    below = [style_of(name).name for name in values.compared if not values.lies_above(name)]
    text = "Every method lies above the line"
    if below:
        text = f"Not above the line, so no better than a ratio test: {', '.join(below)}"
    if len(scenes) < 2:
        return f"{text}."
    above = [
        f"{style_of(name).name} {sum(scene.lies_above(name) for scene in scenes)}"
        for name in values.compared
    ]
    return (
        f"{text}. On how many of {count(len(scenes))} scenes a method lies above the scene's own "
        f"line: {', '.join(above)}."
    )


def reliability_picture(
    evaluations: Sequence[SceneEvaluation], methods: Sequence[str]
) -> list[Picture]:
    """Plan how the probabilities of matches compare with the truth; [] if nothing is known."""
    known = [name for name in methods if reliability_of(evaluations, name)]
    if not known:
        return []
    several = len(evaluations) > 1
    return [
        Picture(
            "reliability.png",
            "How good the estimates are",
            _RELIABILITY_CAPTION + (" Thin lines are single scenes." if several else ""),
            alt=" ".join(_in_words(evaluations, name) for name in known),
            drawing=Drawing(
                "reliability",
                reliabilities_figure,
                ({name: reliability_of(evaluations, name) for name in known},),
            ),
        )
    ]


def _in_words(evaluations: Sequence[SceneEvaluation], method: str) -> str:
    together = pooled(reliability_of(evaluations, method))
    columns = (together[key] for key in ("probability", "right", "judged"))
    classes = [
        f"estimated {whole_percent(probability)}, right {whole_percent(right)} of {count(judged)}"
        for probability, right, judged in zip(*columns, strict=True)
    ]
    return f"{style_of(method).name}: {'; '.join(classes)}."
