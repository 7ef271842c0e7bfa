"""The sentence that a scene's page opens with: which result to take, and what it is worth."""

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.best import best_methods
from nmfsync.report.figures.style import HEADLINE, style_of
from nmfsync.report.figures.trade_off import trade_off
from nmfsync.report.page import many, whole_percent


def take_away(evaluation: SceneEvaluation) -> str:
    """Say in one sentence which result to take, and compare it with input and ratio test.

    Parameters
    ----------
    evaluation : SceneEvaluation

    Returns
    -------
    str
    """
    before, result = evaluation.methods["input"], evaluation.methods[evaluation.tracks]
    if not before.matchings:
        return "No two images have a match: add images that overlap, or more features (--features)."
    of_input = f"{many(before.matchings, 'match')}, {_worth(before)}"
    if list(evaluation.methods) == ["input"]:
        return f"There are {of_input}; no method made them consistent."
    if evaluation.tracks == "input":
        return f"No method of this run makes consistent tracks; the input has {of_input}."
    name = style_of(evaluation.tracks).name
    number = f" in {many(result.tracks, 'track')}" if result.tracks is not None else ""
    judged = " where the truth can judge" if result.precision.get(HEADLINE) is not None else ""
    return (
        f"Take the tracks of {name}: {many(result.matchings, 'match')}{number}, "
        f"{_worth(result, judged)}; "
        f"the input has {of_input}{_ratio_test(evaluation)}{_surpassed(evaluation)}."
    )


def _worth(method: MethodEvaluation, judged: str = "") -> str:
    """Say how right matches are: measured if possible, and estimated."""
    measured, estimated = method.precision.get(HEADLINE), method.estimated_precision
    if measured is None:
        if estimated is None:
            return "unknown how right"
        return f"about {whole_percent(estimated)} right (estimated)"
    text = f"{whole_percent(measured)} right{judged}"
    return text if estimated is None else f"{text} (estimated: {whole_percent(estimated)})"


def _ratio_test(evaluation: SceneEvaluation) -> str:
    """Compare with thresholding alone, where it finds as many right matches."""
    values = trade_off([evaluation])
    if not values.compared:
        return ""
    share = values.methods[evaluation.tracks][0]
    reached = values.ratio_test_at(share)
    if reached is None:
        return ", and no ratio test finds as many right ones"
    return f", and a ratio test that finds as many right ones is {whole_percent(reached)} right"


def _surpassed(evaluation: SceneEvaluation) -> str:
    """Name the consistent methods with both a higher FCM and a higher precision."""
    own = _headlines(evaluation.methods[evaluation.tracks])
    rivals = best_methods([evaluation])
    better = [
        style_of(name).name
        for name, method in evaluation.methods.items()
        if name in rivals and all(a > b for a, b in zip(_headlines(method), own, strict=True))
    ]
    is_ = "is" if len(better) == 1 else "are"
    return f"; {', '.join(better)} {is_} better here in FCM and precision" if better else ""


def _headlines(method: MethodEvaluation) -> list[float]:
    """FCM and precision at 1 %, as they are shown; unknown ones are not above any."""
    curves = (method.fcm.get(HEADLINE), method.precision.get(HEADLINE))
    return [float("nan") if value is None else round(value, 3) for value in curves]
