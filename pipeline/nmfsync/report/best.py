"""Which methods may win a star: one rule for all pages."""

from collections.abc import Iterable

from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.page import whole_percent

# Precision alone is easy to win: by returning hardly anything. A method takes part if its coverage
# is at least this share of the largest coverage of a cycle-consistent method. Not more: where most
# matches of the input are wrong, a good method covers half as much as one that keeps them.
LEAST_COVERAGE = 0.25

BEST_RULE = (
    "among the methods whose result is cycle-consistent and covers at least "
    f"{whole_percent(LEAST_COVERAGE)} as many features as the one that covers the most"
)


def best_methods(evaluations: Iterable[SceneEvaluation]) -> set[str]:
    """Return the methods whose values may be marked as the best ones.

    Parameters
    ----------
    evaluations : iterable of SceneEvaluation
        One for a row about one scene; several for means over scenes.

    Returns
    -------
    set of str
        The methods, never "input", that fulfil `BEST_RULE` on every scene. A coverage that is
        not known, from a file of an earlier version, excludes nothing.
    """
    admitted = [_admitted(evaluation) for evaluation in evaluations]
    return set.intersection(*admitted) if admitted else set()


def _admitted(evaluation: SceneEvaluation) -> set[str]:
    consistent = {
        name: method
        for name, method in evaluation.methods.items()
        if name != "input" and method.cycle_consistent
    }
    largest = max((method.coverage or 0.0 for method in consistent.values()), default=0.0)
    least = LEAST_COVERAGE * largest
    return {n for n, m in consistent.items() if m.coverage is None or m.coverage >= least}
