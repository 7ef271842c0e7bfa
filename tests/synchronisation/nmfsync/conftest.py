"""A problem of many components, for the parts of NmfSync."""

import warnings

import numpy as np
import pytest

from nmfsync import NmfsyncWarning, synthetic
from nmfsync.synchronisation.numerics.components import label_components
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs


@pytest.fixture(scope="module")
def many_components():
    """Make few matches: 60 components, some with one feature and some with dozens."""
    W, _, sizes = synthetic.generate(k=5, d=60, rho=0.6, sigma=0.2, seed=0)
    component_of = label_components(W)
    assert len(np.unique(component_of)) > 10
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "universe size", NmfsyncWarning)
        values, vectors = top_eigenpairs(W, 60)
    return W, sizes, component_of, vectors * np.sqrt(np.maximum(values, 0))
