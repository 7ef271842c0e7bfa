"""The figures that a scene's page has for its viewer, as the browser reads them."""

import pytest

from three_images import evaluation_of, results_for, three_images, write_report

READ = """async () => {
  await viewer.ready;
  const { data, arrays } = viewer;
  const lists = Object.entries(arrays).map(([name, array]) => [name, Array.from(array)]);
  return { ...data, arrays: Object.fromEntries(lists) };
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Write the report of three images; return its evaluation and its file."""
    folder = tmp_path_factory.mktemp("report")
    names = ("</script>.png", "$x$ & y.png", "c.png")
    scene, features = three_images(folder / "images", tuple(n.replace("/", "∕") for n in names))
    write_report(folder / "out", scene, features)
    return evaluation_of(scene, features, results_for(features)), folder / "out/report.html"


def test_figures_of_the_image_pairs_are_those_of_the_evaluation(report, open_page):
    evaluation, file = report
    page = open_page(file)
    data = page.evaluate(READ)
    arrays, width = data["arrays"], len(data["arrays"]["pair_i"])
    assert data["tracks"] == evaluation.tracks == "nmfsync"
    m = [method["key"] for method in data["methods"]].index("nmfsync")
    assert data["methods"][m] == {
        "key": "nmfsync", "name": "NmfSync", "colour": data["methods"][m]["colour"],
        "consistent": True,
    }  # fmt: skip

    def of_method(name):
        return arrays[name][m * width : (m + 1) * width]

    pairs = zip(arrays["pair_i"], arrays["pair_j"], strict=True)
    found = zip(
        pairs, *(of_method(f"pair_{n}") for n in ("matches", "judged", "right")), strict=True
    )
    expected = evaluation.to_dict()["image_pairs"]
    assert len(expected) == 3
    assert [(images, matches, right / judged) for images, matches, judged, right in found] == [
        (pair["images"], pair["matchings"], pair["precision"]) for pair in expected
    ]
    estimates = [pair["estimated_precision"] for pair in expected]
    assert of_method("pair_estimated") == pytest.approx(estimates, rel=1e-6)
    matches = [method["matchings"] for method in evaluation.to_dict()["methods"].values()]
    sums = [sum(arrays["pair_matches"][n * width : (n + 1) * width]) for n in range(len(matches))]
    assert sums == matches


def test_a_photograph_has_the_proportions_of_its_image(report, open_page):
    page = open_page(report[1])
    sizes = page.evaluate("""() => Promise.all(viewer.data.images.map(async (image, i) => {
      const picture = await viewer.image(i);
      return [picture.width / image.width, picture.height / image.height];
    }))""")
    assert sizes == [[1, 1]] * 3
