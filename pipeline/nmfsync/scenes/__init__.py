"""Stage 1: images, and what is known about them, from a data set or a folder."""
