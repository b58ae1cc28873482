"""Configuration of the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

import tierscope

sys.path.insert(0, str(Path(__file__).parent))

project = "tierscope"
author = "The tierscope authors"
project_copyright = author
version = release = tierscope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True

html_theme = "furo"
html_title = f"tierscope {release}"
html_static_path: list[str] = []

# Every example runs; one that fails, fails the build.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("gallery_figures",),
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}
