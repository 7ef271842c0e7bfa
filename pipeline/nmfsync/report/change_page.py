"""The page about one file of matches: what synchronisation changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.image_graph import ImageGraph
from nmfsync.evaluation.tracks import Change
from nmfsync.report.estimates import (
    MOST_ROWS,
    doubtful_rows,
    doubtful_sentence,
    image_pairs_of,
    names_of,
)
from nmfsync.report.figures.style import default_look, style_of, to_png
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.image_graph import graph_picture, graph_sentences
from nmfsync.report.page import Picture, count, decimal, environment, flatten, write_bytes
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import Matches

NO_GRAPH = ImageGraph()


@default_look()
def write_change_report(
    path: Path,
    names: tuple[str, str],
    settings: Mapping[str, Any],
    change: Change,
    result: Matches,
    confidence: Confidence,
    remarks: Sequence[str] = (),
    warnings: Sequence[str] = (),
    graph: ImageGraph = NO_GRAPH,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a self-contained page about what synchronisation changed.

    Parameters
    ----------
    path : Path
        The HTML file to write.
    names : tuple of str
        Names of the file with the input matches and of the file written from it.
    settings : dict
        The settings of the method, see `Method.settings`.
    change : Change
    result : PairwiseMatches or MultiMatching
        What the method returned.
    confidence : Confidence
        How likely its matches are right.
    remarks, warnings : sequence of str
        Sentences above the table.
    graph : ImageGraph
        Of the result.
    provenance : dict, optional
        See `Clock.provenance`.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    before, after = change.tracks
    image_names = names_of(result)
    pairs = image_pairs_of(confidence, result.image_of)
    picture = Picture(
        "lengths.png",
        "Tracks before and after",
        "The tracks of the input are its connected components. Programs such as OpenMVG and "
        "OpenSfM throw away a component that contains two features of one image.",
        to_png(lengths_figure({"input": before, settings["method"]: after})),
    )
    html = (
        environment()
        .get_template("change.html")
        .render(
            input_name=names[0],
            output_name=names[1],
            method=style_of(settings["method"]).name,
            method_keys=[settings["method"]],
            settings=flatten(settings),
            change=change,
            rows=change_rows(change),
            picture=picture,
            doubtful=doubtful_sentence(pairs),
            doubtful_rows=doubtful_rows(pairs, image_names, MOST_ROWS),
            remarks=remarks,
            warnings=warnings,
            graph=graph_picture(graph, image_names, image_names),
            graph_sentences=graph_sentences(graph, image_names),
            provenance=provenance or {},
        )
    )
    write_bytes(path, html.encode())


def change_rows(change: Change) -> list[tuple[str, str, str]]:
    """Return the rows of the table: name, before, after."""
    before, after = change.tracks
    mean = decimal(_mean(before.lengths)), decimal(_mean(after.lengths))
    return [
        ("matches", count(change.kept + change.removed), count(change.kept + change.added)),
        ("tracks", count(len(before.lengths)), count(len(after.lengths))),
        ("mean track length", *mean),
        ("inconsistent tracks", count(change.inconsistent[0]), count(change.inconsistent[1])),
        ("features in inconsistent tracks", count(before.lost), count(after.lost)),
        ("features without a match", count(before.alone), count(after.alone)),
    ]


def _mean(lengths: AnyArray) -> float | None:
    return float(lengths.mean()) if len(lengths) else None
