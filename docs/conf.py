"""How Sphinx builds the site: `python -m sphinx -W --keep-going -n docs build/site`."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for site_tools

project = "nmfsync"
author = "The nmfsync developers"
copyright = f"{author}, MIT licence"
version = release = installed_version("nmfsync")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "site_tools",
]
# `gallery` holds the scripts; Sphinx-Gallery makes pages of them in `examples`.
exclude_patterns = ["gallery"]

# Pages are plain Markdown, so that they read well outside the site, too.
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3

# Types stand in the docstrings, with shapes and units; signatures stay short.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False  # `api` lists everything by hand, in the order of the stages
numpydoc_show_class_members = False  # autodoc shows them
# In docstrings, `name` is a link where this site documents that name, and code elsewhere.
default_role = "py:obj"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": "",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # seconds: pages are the same on every machine
    "write_computation_times": False,
    "within_subsection_order": "ExampleTitleSortKey",
}

html_theme = "furo"
html_title = f"nmfsync {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
