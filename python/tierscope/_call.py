"""Calls to the simulator, its errors made ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tierscope import _core
from tierscope.errors import Problem, RunError, SpecError


@contextmanager
def core_errors() -> Iterator[None]:
    """Raises the package's errors for those of the simulator."""
    try:
        yield
    except _core.SpecError as error:
        problems = [Problem(**problem) for problem in json.loads(error.args[0])]
        raise SpecError(problems) from None
    except _core.RunError as error:
        code, message = error.args
        raise RunError(code, message) from None


def parsed(text: str) -> Any:
    """What a JSON text of the simulator says."""
    return json.loads(text)
