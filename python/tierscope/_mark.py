"""The region of interest of a program that tierscope records, marked by the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tierscope import _core


def roi_begin() -> None:
    """Begins the region of interest.

    Does nothing where the program is not recorded, and takes no time worth speaking of.
    """
    _core.roi_begin()


def roi_end() -> None:
    """Ends the region of interest."""
    _core.roi_end()


@contextmanager
def roi() -> Iterator[None]:
    """A region of interest: what the `with` block does.

    The region ends with the block, however that ends::

        with tierscope.roi():
            step()
    """
    _core.roi_begin()
    try:
        yield
    finally:
        _core.roi_end()


def include_dir() -> Path:
    """The directory of `tierscope.h`, for programs in C and C++ that mark their region."""
    return Path(__file__).parent / "include"
