"""Figures of the reports, drawn with matplotlib."""
