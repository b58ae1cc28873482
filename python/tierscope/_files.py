"""Files and directories, read with a bound, written so that none is ever half written."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from tierscope.errors import TierscopeError


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all; devices and pipes are written to, never replaced.

    Raises:
        TierscopeError: where it cannot be written.
    """
    write_with(path, lambda fresh: fresh.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """As :func:`write_text`, of bytes.

    Raises:
        TierscopeError: where it cannot be written.
    """
    write_with(path, lambda fresh: fresh.write_bytes(content))


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """As :func:`write_text`, of what ``write`` puts to the path that it is given.

    Raises:
        TierscopeError: where it cannot be written.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            write(path)
            return
        path = path.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        os.close(handle)
        fresh = Path(name)
        try:
            write(fresh)
            fresh.chmod(0o666 & ~current_mask())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise TierscopeError("unwritable", f"{path} cannot be written: {error.strerror}") from None


def write_directory(target: Path, write: Callable[[Path], None]) -> None:
    """Writes a directory whole or not at all; what was there goes once the new one is in place.

    Raises:
        TierscopeError: where it cannot be written.
    """
    try:
        target = _led_to(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            write(fresh)
            fresh.chmod(0o777 & ~current_mask())
            _replace_directory(target, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise TierscopeError(
            "unwritable", f"the result cannot be written to {target}: {error.strerror}"
        ) from None


def check_directory(target: Path) -> None:
    """Finds out, before anything is computed, whether :func:`write_directory` could write one.

    Raises:
        TierscopeError: where it could not.
    """
    target = _led_to(target)
    if target.is_symlink():
        raise TierscopeError(
            "unwritable", f"{target} is a link to itself", "name a directory for the result"
        )
    if target.is_mount():
        raise TierscopeError(
            "unwritable",
            f"{target} is a mount point, and cannot be replaced as a whole",
            "name a directory within it",
        )
    there = next((one for one in target.parents if one.exists()), None)
    if there is None:
        return
    try:
        Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=there)).rmdir()
    except OSError as error:
        raise TierscopeError(
            "unwritable",
            f"no result can be written to {target}: {error.strerror}",
            "name a directory where you may write",
        ) from None


def _led_to(target: Path) -> Path:
    """Where links lead: what they lead to is replaced, and not the links."""
    return Path(os.path.realpath(target))


def _replace_directory(target: Path, fresh: Path) -> None:
    if not target.exists() or not any(target.iterdir()):
        fresh.rename(target)
        return
    if _exchange(fresh, target):
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Lets two directories change places at once, so that whoever is killed leaves both whole.

    False where the file system or the C library cannot (renameat2(2), RENAME_EXCHANGE).
    """
    here, exchange = -100, 2
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number))


def read_text(path: Path, what: str, mend: str) -> str:
    """The text of a file that tierscope has written.

    Raises:
        TierscopeError: where it cannot be read, or cannot be ``what``: a pipe may never end.
    """
    try:
        if path.exists() and not path.is_file():
            raise TierscopeError("unreadable", f"{path} is no regular file", mend)
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            raise TierscopeError("unreadable", f"{path} is too large to be {what}", mend)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TierscopeError(
            "unreadable", f"{path} cannot be read: {error.strerror}", mend
        ) from None
    except UnicodeDecodeError as error:
        raise TierscopeError("unreadable", f"{path} is not {what}: {error}", mend) from None


_MOST_BYTES = 256 << 20
"""Far beyond what any result takes."""


def toml_mistake(error: ValueError | RecursionError) -> str:
    """Why a text is no TOML that can be read, as the parser has it."""
    if isinstance(error, tomllib.TOMLDecodeError):
        return str(error)
    if isinstance(error, RecursionError):
        return "tables or lists lie too deep in each other"
    return "a number has more digits than can be read"


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does (docs/formats/tst.md).

    Raises:
        OSError: where it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_RECORDING)) == _RECORDING


_RECORDING = b"\x89TST\r\n\x1a\n"


def current_mask() -> int:
    """The mask of permissions that new files get: what is temporary is private, results are not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
