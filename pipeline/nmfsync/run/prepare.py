"""A scene before its first stage: what a run of it depends on, and whether that was run already.

Imports little: a run that has nothing to do needs no more than this.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from nmfsync.errors import collected_warnings
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.run.folders import claim_folder
from nmfsync.run.settings import Settings
from nmfsync.runtime.cache import code_behind, code_of_pages, key_of
from nmfsync.runtime.files import sha256_of, sweep_below
from nmfsync.runtime.provenance import Clock
from nmfsync.runtime.publish import locked, made_from
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.scene import Scene, scene_folder
from nmfsync.synchronisation.methods import METHODS, Method
from nmfsync.types.camera import poses_of
from nmfsync.types.truth import Homographies

Progress = Callable[[str], None] | None


@dataclass(frozen=True)
class Prepared:
    """A scene that is about to be run.

    Attributes
    ----------
    target : str
        What the user called it.
    scene : Scene
        Named by its folder of outputs.
    settings : Settings
        Resolved ones.
    folder : Path
        Where its outputs go.
    for_mapper : bool
        Whether the images are there to be mapped.
    remarks : list of str
        What reading the scene warned of.
    clock : Clock
        Of the run.
    origin : str
        Digest of all that the files of a run follow from, but for when and how they are made.
    """

    target: str
    scene: Scene
    settings: Settings
    folder: Path
    for_mapper: bool
    remarks: list[str]
    clock: Clock
    origin: str


def prepare_scene(
    name: str,
    settings: Settings | None,
    out: Path | str,
    data: Path | str | None,
    progress: Progress,
    first: bool,
) -> Prepared:
    """Read a scene, decide its settings, and claim its folder.

    Parameters
    ----------
    name, settings, out, data, progress, first
        As for `run_scene`.

    Raises
    ------
    NmfsyncError
        If the scene cannot be read, its images lie where the outputs go, or a file for mappers
        cannot be written.
    OSError
        If the output cannot be written.
    """
    settings, clock = settings or Settings(), Clock()
    if settings.exports:
        from nmfsync.run.export import check_exports

        check_exports(settings, [name])
    if progress:
        progress("images")
    with collected_warnings() as remarks:
        scene = load_scene(name, data)
    own_photographs = scene.folder is not None and scene.truth is None and scene.cameras is None
    settings = settings.resolved(own_photographs, len(scene.paths))
    own = claim_folder(scene, Path(out), first)
    if own != scene.name:
        remarks.append(
            f"the output folder {scene.name} belongs to another input, or holds other files; "
            f"the results of this one are in {own}; give another --out to keep the name"
        )
    scene, folder = replace(scene, name=own), scene_folder(Path(out), own)
    if settings.exports:
        from nmfsync.run.export import check_targets

        check_targets(settings, scene, name, folder)
    sweep_below(folder)
    origin = _origin(scene, settings, remarks)
    for_mapper = own_photographs or bool(settings.exports)
    return Prepared(name, scene, settings, folder, for_mapper, remarks, clock, origin)


def done_before(prepared: Prepared, progress: Progress) -> SceneEvaluation | None:
    """Return the evaluation of the last run if this one has nothing to do; else None.

    There is always something to do for a mapper, as others may have changed its files, and for
    methods that were left out, as there may be more memory now. `progress` is told the steps.
    """
    evaluation = None if prepared.settings.exports else last_evaluation(prepared)
    if evaluation is None or not {*prepared.settings.solvers} <= {*evaluation.methods}:
        return None
    for step in prepared.settings.steps[1:]:
        if progress:
            progress(step)
    return evaluation


def last_evaluation(prepared: Prepared) -> SceneEvaluation | None:
    """Return the evaluation of the last run if its files follow from the same; else None."""
    folder = prepared.folder
    with locked(folder):  # nobody puts files in place in between
        if not made_from(folder, prepared.origin):
            return None
        return SceneEvaluation.read(folder / "evaluation.json")


def _origin(scene: Scene, settings: Settings, remarks: list[str]) -> str:
    """Digest all that the files of a scene follow from, but for when and how they are made.

    The places of the files are part of it, as warnings name them.
    """
    chosen = asdict(settings)
    for name in ("colmap", "hloc"):  # which no file of the folder follows from
        del chosen[name]
    exports = bool(settings.exports)  # which choose how photographs are matched
    pairs = Path(settings.pairs or "")
    return key_of(
        code_of_pages(),
        [_described(METHODS[name]) for name in settings.solvers],
        [chosen, exports, sha256_of(pairs) if pairs.is_file() else None],
        [scene.name, str(scene.folder), scene.strict, dict(scene.left_out), remarks],
        [scene.names, scene.labels, [str(path) for path in scene.paths]],
        scene.digests or [sha256_of(path) for path in scene.paths],
        _known_truth(scene),
    )


def _described(method: Method) -> list[Any]:
    """Say, as JSON can hold it, what a method is: its record, and its code."""
    values = {field.name: getattr(method, field.name) for field in fields(method)}
    return [
        code_behind(method.function),
        {n: repr(v) for n, v in values.items() if not callable(v)},
    ]


def _known_truth(scene: Scene) -> list[Any]:
    """Say, as JSON can hold it, what is known of a scene, and in which files more is."""
    truth = scene.truth
    if isinstance(truth, Homographies):
        return [truth.kind, truth.maps.tolist(), truth.image_sizes.tolist()]
    if scene.cameras is None:
        return []
    from nmfsync.truth.depth_files import depth_files_beside
    from nmfsync.truth.mesh import mesh_beside

    mesh = mesh_beside(scene.paths[0].parent)
    files = [mesh] if mesh else depth_files_beside(scene.paths)
    bounds = None if scene.bounds is None else scene.bounds.tolist()
    return [poses_of(scene.cameras), bounds, [[str(path), sha256_of(path)] for path in files]]
