"""Writing files so that none is ever half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tierscope.errors import TierscopeError


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all; devices and pipes are written to, never replaced.

    Raises:
        TierscopeError: where it cannot be written.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")
            return
        path = path.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        fresh = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            fresh.chmod(0o666 & ~current_mask())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise TierscopeError("unwritable", f"{path} cannot be written: {error.strerror}") from None


def current_mask() -> int:
    """The mask of permissions that new files get: what is temporary is private, results are not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
