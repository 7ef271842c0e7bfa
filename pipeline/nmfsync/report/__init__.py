"""Stage 6: pages in HTML, and the figures in them."""
