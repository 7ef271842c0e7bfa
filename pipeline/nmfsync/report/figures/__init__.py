"""Figures of the pages, drawn with matplotlib."""
