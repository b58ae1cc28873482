"""CITATION.cff: what a paper that cites the package needs, and of the version that is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tierscope as ts
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]

#: Keys that version 1.2.0 of the Citation File Format requires (its schema guide, "Valid keys").
REQUIRED = {"cff-version", "message", "title", "authors"}
#: Keys that it knows, and those of a reference that are used here beside them.
KNOWN = REQUIRED | {
    *(
        "abstract",
        "commit",
        "contact",
        "date-released",
        "doi",
        "identifiers",
        "keywords",
        "license",
    ),
    *("license-url", "preferred-citation", "references", "repository", "repository-artifact"),
    *("repository-code", "type", "url", "version"),
}
OF_A_REFERENCE = {"type", "title", "authors"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_it_has_what_its_format_requires_and_nothing_unknown(citation: dict[str, Any]) -> None:
    assert set(citation) >= REQUIRED
    assert set(citation) <= KNOWN
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    for person in authors(citation):
        assert person.get("name") or person.get("family-names"), person


def test_it_names_the_version_and_the_licences_of_the_package(citation: dict[str, Any]) -> None:
    assert citation["version"] == ts.__version__
    project = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    licence = re.search(r'^license = "(.+)"$', project, re.MULTILINE)
    assert licence is not None
    assert " OR ".join(citation["license"]) == licence.group(1)


def test_what_it_refers_to_can_be_found(citation: dict[str, Any]) -> None:
    assert citation["references"]
    for reference in citation["references"]:
        assert set(reference) >= OF_A_REFERENCE, reference
        assert 1900 < reference["year"] < 2100


def authors(citation: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Those of the software, and of what it refers to."""
    for one in (citation, *citation["references"]):
        assert one["authors"]
        yield from one["authors"]
