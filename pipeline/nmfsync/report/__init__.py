"""Stage 6: pages and figures."""
