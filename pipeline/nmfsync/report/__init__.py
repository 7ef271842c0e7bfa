"""Stage 6: pages in HTML, and the figures in them."""

import nmfsync.report.figures  # noqa: F401  imports matplotlib, before anything else does
