"""Configuration of the documentation."""

from __future__ import annotations

import tierscope

project = "tierscope"
author = "The tierscope authors"
project_copyright = author
version = release = tierscope.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
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
