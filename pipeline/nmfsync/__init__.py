"""Consistent feature tracks from many overlapping photographs.

The way of the data: `load_scene` gives the images and their ground truth,
`extract_all` their SIFT features, `match` the pairwise matches W, `verify` those
that agree with one geometry, `synchronise` matches that agree with each other,
`evaluation` says how good they are. `run_scene` and `run_scenes` do it all, and
`track_images` does it for collections that no machine holds in memory.
Matches of other programs come from `PairwiseMatches.from_colmap` and
`from_hloc`; `synchronise_file` makes a file of them consistent, and `merge_file`
makes shared keypoints of positions that belong to pairs of images.

Names are loaded when they are first used, so that importing the package is quick.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
