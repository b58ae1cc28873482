"""Figures of the gallery: what a block of an example ends with, if that is a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst  # type: ignore[import-untyped]


def _last_figure(_block: object, found: dict[str, Any], settings: dict[str, Any]) -> str:
    figure = found["example_globals"].get("___")
    if not isinstance(figure, Figure):
        return ""
    path = next(found["image_path_iterator"])
    figure.savefig(path, dpi=120)
    return str(figure_rst([path], settings["src_dir"]))


def _get_sg_image_scraper() -> Callable[[object, dict[str, Any], dict[str, Any]], str]:
    """The name under which the gallery looks for a module's scraper."""
    return _last_figure
