"""The page about one file of matches: what synchronisation changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.contradictions import inconsistent_components
from nmfsync.evaluation.match_table import (
    MatchTable,
    PairCounts,
    count_by_pair,
    judge_matches,
    match_table,
)
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.evaluation.tracks import Change
from nmfsync.report.estimates import (
    MOST_ROWS,
    doubtful_links,
    doubtful_rows,
    doubtful_sentence,
    image_pairs_of,
    names_of,
)
from nmfsync.report.figures.style import default_look, style_of, to_png
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.image_graph import graph_picture, graph_sentences
from nmfsync.report.page import (
    Picture,
    count,
    decimal,
    environment,
    flatten,
    percent,
    write_bytes,
)
from nmfsync.report.pictures import drawn
from nmfsync.report.wrong_pairs import wrong_pairs
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches
from nmfsync.types.verdicts import PairVerdict

_MOST_COMPONENTS = 10
_MOST_PAIRS = 50

Precision = tuple[float | None, float | None]  # estimated, before and after

NO_GRAPH = ImageGraph()

VERIFICATION = "verification"  # in the place of a method, where matches were only verified


@default_look()
def write_change_report(
    path: Path,
    names: tuple[str, str],
    change: Change,
    results: Mapping[str, Matches],
    confidences: Mapping[str, Confidence],
    precision: Precision = (None, None),
    remarks: Sequence[str] = (),
    warnings: Sequence[str] = (),
    viewer: str = "",
    graph: ImageGraph = NO_GRAPH,
    verdicts: Sequence[PairVerdict] = (),
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a self-contained page about what synchronisation or verification changed.

    Parameters
    ----------
    path : Path
        The HTML file to write.
    names : tuple of str
        Names of the file with the input matches and of the file written from it.
    change : Change
    results : dict of str to PairwiseMatches or MultiMatching
        "input", and what the method returned, with its `settings`.
    confidences : dict of str to Confidence
        How likely their matches are right; NaN if nothing is known.
    precision : tuple of float or None
        The estimated precision of the matches in both files.
    remarks, warnings : sequence of str
        Sentences above the table.
    viewer : str
        The JSON of the viewer, see `viewer_json`; "" for none.
    graph : ImageGraph
        Of the result.
    verdicts : sequence of PairVerdict
        If wrong pairs of images were left out: on all pairs.
    provenance : dict, optional
        See `Clock.provenance`.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    known, result = results.values()
    assert isinstance(known, PairwiseMatches)
    settings = dict(result.settings or {})
    table = match_table(confidences, known.sizes)
    counts = count_by_pair(table, judge_matches(table, {}, np.ones(len(known.sizes))), confidences)
    pairs = image_pairs_of(_known(confidences[settings["method"]]), result.image_of)
    image_names = names_of(result)
    wrong = wrong_pairs(verdicts, image_names)
    html = (
        environment()
        .get_template("change.html")
        .render(
            input_name=names[0],
            output_name=names[1],
            method=style_of(settings["method"]).name,
            method_keys=[settings["method"]],
            only_verified=settings["method"] == VERIFICATION,
            settings=flatten(settings),
            change=change,
            duplicates=result.duplicate_count,
            verdict=verdict(names[0], change, precision),
            rows=change_rows(change, precision),
            picture=_lengths_picture(change, settings["method"]),
            components=_component_rows(table, known, result),
            pairs=_pair_rows(table, counts, image_names),
            pairs_left_out=max(0, len(table.pairs) - _MOST_PAIRS),
            doubtful=doubtful_sentence(pairs),
            doubtful_rows=doubtful_rows(pairs, image_names, MOST_ROWS),
            doubtful_links=doubtful_links(pairs, MOST_ROWS),
            remarks=remarks,
            warnings=warnings,
            graph=drawn(graph_picture(graph, image_names, image_names)),
            graph_sentences=graph_sentences(graph, image_names),
            wrong=wrong and wrong.drawn(),
            provenance=provenance or {},
            viewer_json=viewer,
        )
    )
    write_bytes(path, html.encode())


def change_rows(change: Change, precision: Precision = (None, None)) -> list[tuple[str, str, str]]:
    """Return the rows of the table: name, before, after."""
    before, after = change.tracks
    mean = decimal(_mean(before.lengths)), decimal(_mean(after.lengths))
    rows = [
        ("matches", count(change.kept + change.removed), count(change.kept + change.added)),
        ("tracks", count(len(before.lengths)), count(len(after.lengths))),
        ("mean track length", *mean),
        ("inconsistent tracks", count(change.inconsistent[0]), count(change.inconsistent[1])),
        ("features in inconsistent tracks", count(before.lost), count(after.lost)),
        ("features without a match", count(before.alone), count(after.alone)),
    ]
    if precision != (None, None):
        before_share, after_share = map(percent, precision)
        rows.insert(1, ("estimated precision", before_share, after_share))
    return rows


def verdict(input_name: str, change: Change, precision: Precision = (None, None)) -> str:
    """Say in a few sentences what synchronisation did to a file."""
    text = (
        f"Of the {count(change.kept + change.removed)} matches of {input_name}, "
        f"{count(change.kept)} were kept and {count(change.removed)} removed; "
        f"{count(change.added)} were added."
    )
    broken, left = change.inconsistent
    if broken:
        text += f" Inconsistent tracks: {count(broken)} before, {count(left)} now."
    before, after = map(percent, precision)
    if None not in precision:
        text += f" About {before} of the matches were right before, {after} are now (estimated)."
    return text.replace(" %", "\u00a0%")


def _known(confidence: Confidence) -> Confidence:
    """Leave out the matches of which nothing is known."""
    known = np.isfinite(confidence.probability)
    return Confidence(confidence.p[known], confidence.q[known], confidence.probability[known])


def _lengths_picture(change: Change, method: str) -> Picture:
    before, after = change.tracks
    return Picture(
        "lengths.png",
        "Tracks before and after",
        "The tracks of the input are its connected components. Programs such as OpenMVG and "
        "OpenSfM throw away a component that contains two features of one image.",
        to_png(lengths_figure({"input": before, method: after})),
    )


def _component_rows(table: MatchTable, known: PairwiseMatches, result: Matches) -> list[list[str]]:
    """Return features, images, matches, removed matches and tracks of the worst components."""
    if not isinstance(result, MultiMatching):
        return []
    columns = inconsistent_components(table, known, result)[:5]
    rows = zip(*(column[:_MOST_COMPONENTS].tolist() for column in columns), strict=True)
    return [[count(value) for value in row] for row in rows]


def _pair_rows(table: MatchTable, counts: PairCounts, names: Sequence[str]) -> list[list[str]]:
    """Return the rows about the pairs of images that lost most matches.

    Two names; matches before, kept, removed and added; estimated precision before and after.
    """
    before, kept, total = counts.matches[0], counts.kept[1], counts.matches[1]
    removed, added = before - kept, total - kept
    worst = np.argsort(-removed, kind="stable")[:_MOST_PAIRS]
    whole = np.column_stack([before, kept, removed, added])[worst].tolist()
    shares = counts.estimated[:, worst].T.tolist()
    return [
        [names[i], names[j], *map(count, numbers), *map(_share, share)]
        for (i, j), numbers, share in zip(table.pairs[worst].tolist(), whole, shares, strict=True)
    ]


def _share(value: float) -> str:
    return percent(value if np.isfinite(value) else None)


def _mean(lengths: AnyArray) -> float | None:
    return float(lengths.mean()) if len(lengths) else None
