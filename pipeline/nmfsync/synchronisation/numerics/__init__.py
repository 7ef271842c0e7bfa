"""Linear algebra that the methods share, with the same bits for any number of threads."""
