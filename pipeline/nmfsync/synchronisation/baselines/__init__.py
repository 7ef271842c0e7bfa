"""The published methods that ours are compared with."""
