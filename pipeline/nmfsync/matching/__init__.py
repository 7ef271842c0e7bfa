"""Stage 3: which pairs of images to match, their matches, and geometric verification."""
