"""Seeing the result: plots, overlays and HTML reports."""

from nmfsync.report.html import write_dataset_report, write_scene_report

__all__ = ["write_dataset_report", "write_scene_report"]
