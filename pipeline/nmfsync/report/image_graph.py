"""How the images hang together, in words: for pages, warnings and the terminal."""

from collections.abc import Sequence

from nmfsync.errors import shown
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.report.drawing import Drawing
from nmfsync.report.figures.image_graph import image_graph_figure
from nmfsync.report.page import Picture, count, joined

MOST_NAMES = 5

_CAPTION = (
    "One point an image; the more matches are likely right, beyond what chance gives, the wider "
    "the line. Images that are linked by many lie close together. Of every image, the strongest "
    "ties are drawn, and those that hold a part together. Each part has its colour and shape; a "
    "ring marks an image whose best tie is weak, a dashed line a weak tie between two groups, a "
    "cross an image that is linked to none."
)


def graph_sentences(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    """Say how the images hang together: linked or not, then which ties are weak.

    Parameters
    ----------
    graph : ImageGraph
    names : sequence of str
        Of all images.

    Returns
    -------
    list of str
        The first says how many images are linked; no other without weak ties.
    """
    return [_linked(graph, len(names)), *_weak(graph, names)]


def graph_warnings(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    """Warn of images that look unrelated and of parts that nothing links, with the remedy.

    Parameters
    ----------
    graph : ImageGraph
    names : sequence of str
        Of all images.
    """
    return [*_unrelated(graph, names), *_apart(graph, names)]


def graph_picture(graph: ImageGraph, names: Sequence[str], labels: Sequence[str]) -> list[Picture]:
    """Plan the graph of the images; [] if none are linked.

    Parameters
    ----------
    graph : ImageGraph
    names, labels : sequence of str
        Of all images, long and short.
    """
    if not graph.ties:
        return []
    words = " ".join([*graph_sentences(graph, names), *_extremes(graph, names)])
    drawing = Drawing("images", image_graph_figure, (graph, labels))
    return [Picture("images.png", "The graph of the images", _CAPTION, alt=words, drawing=drawing)]


def _linked(graph: ImageGraph, images: int) -> str:
    sizes = [len(part) for part in graph.parts]
    if not sizes:
        return "No two images are linked by enough matches that are likely right."
    total = sum(sizes)
    who = f"All {count(images)}" if total == images else f"{count(total)} of {count(images)}"
    if len(sizes) == 1:
        return f"{who} images are linked by matches that are likely right."
    largest = _and([count(size) for size in sizes[:MOST_NAMES]], len(sizes))
    return f"{who} images are linked, in {count(len(sizes))} separate parts: of {largest} images."


def _weak(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    sentences = []
    if graph.weak:
        sentences.append(f"Only weakly tied to the others: {names_in_words(graph.weak, names)}.")
    if graph.bridges:
        pairs = [f"{shown(names[i])} and {shown(names[j])}" for i, j in graph.bridges]
        ties = "; ".join(pairs[:MOST_NAMES])
        more = len(pairs) - MOST_NAMES
        ties += f"; and {count(more)} more" if more > 0 else ""
        sentences.append(f"Groups of images that hang together by weak ties only, at best: {ties}.")
    return sentences


def _unrelated(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    found = graph.unrelated
    if not found:
        return []
    if 2 * len(found) > len(names):
        return [
            f"only {count(sum(map(len, graph.parts)))} of {count(len(names))} images are linked by "
            "matches that are likely right; take more --features, or images that overlap more"
        ]
    one, who = len(found) == 1, names_in_words(found, names)
    return [
        f"{who} look{'s' if one else ''} unrelated to the other images: no "
        f"tie to them is stronger than chance; leave {'it' if one else 'them'} out, or, if "
        f"{'it shows' if one else 'they show'} the same scene, take more --features or add "
        "images in between"
    ]


def _apart(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    if len(graph.parts) < 2 or not graph.clear:
        return []
    largest, *others = graph.parts
    groups = "; ".join(names_in_words(part, names) for part in others[:MOST_NAMES])
    more = len(others) - MOST_NAMES
    groups += f"; and {count(more)} more parts" if more > 0 else ""
    return [
        f"the images fall into {count(len(graph.parts))} parts that no match links: the largest "
        f"has {count(len(largest))}, apart from it are {groups}; run them on their own, or, if "
        "they show one scene, take more --features or add images in between"
    ]


def _extremes(graph: ImageGraph, names: Sequence[str]) -> list[str]:
    """Name the strongest and the weakest tie that are drawn."""
    ordered = sorted(graph.ties, key=lambda tie: -tie[2])
    texts = [
        f"The {what} tie drawn: {shown(names[i])} and {shown(names[j])}, {count(strength)} matches."
        for what, (i, j, strength) in zip(
            ("strongest", "weakest"), (ordered[0], ordered[-1]), strict=True
        )
    ]
    return texts[: len(ordered)]


def names_in_words(images: Sequence[int], names: Sequence[str]) -> str:
    """Name some images, and say how many more there are."""
    return _and([shown(names[i]) for i in images[:MOST_NAMES]], len(images))


def _and(words: Sequence[str], total: int) -> str:
    """Join words; of more than these, say how many more."""
    more = total - len(words)
    return joined([*words, f"{count(more)} more"] if more > 0 else words)
