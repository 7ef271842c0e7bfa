"""Stage 2: SIFT features of every image."""
