"""Stage 5: how good matches are, against ground truth and among themselves.

`fcm` and `precision_at` need the ground truth of a scene of photographs.
`gt_error`, `precision`, `recall` and `f_score` need the true matrix of matches.
`cycle_error` and `track_counts` need the matches alone. `estimate_confidence`
estimates how many matches are right without any truth.

Names are loaded when they are first used: the figures of an earlier run are read without what
measures them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
