"""Stage 4: pairwise matches become consistent, by one of several methods."""
