"""What all pages share."""

from builders import python


def test_plots_need_no_pyplot():
    python("-c", "import sys, nmfsync.report; sys.exit('matplotlib.pyplot' in sys.modules)")
