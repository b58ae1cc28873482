"""Papers and their items: what each shows, what it runs, and what was published of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierscope import _check
from tierscope._files import read_text, toml_mistake
from tierscope.errors import Problem, SpecError, TierscopeError
from tierscope.reproduce.figures import FIGURES
from tierscope.sweeps import study as studies
from tierscope.sweeps.mistakes import Mistakes
from tierscope.sweeps.places import Places
from tierscope.sweeps.study import Study

HERE = Path(__file__).parent.parent / "experiments"
"""The experiments of this package."""
VIEWS = ("lines", "bars", "stacks", "delays", "energies", "table", "description", "owners")

"""Forms in which an item can be shown."""
QUICK, FULL = "quick", "full"
_PAPER = "paper.toml"
_PAPER_KEYS: dict[str, type] = {
    "key": str,
    "title": str,
    "citation": str,
    "aliases": list,
    "items": list,
    "remarks": list,
}
_ITEM_KEYS: dict[str, type] = {
    "where": str,
    "shows": str,
    "view": str,
    "over": str,
    "figure": str,
    "also": list,
    "runs_of": str,
    "relative_to": str,
    "systems": list,
    "columns": list,
    "readings": list,
    "lacks": list,
    "missing": list,
    "wall_s": dict,
    "scales": dict,
    "at": dict,
    "studies": list,
    "claims": list,
    "values": list,
}
_CLAIM_KEYS: dict[str, type | tuple[type, ...]] = {
    "says": str,
    "where": str,
    "kind": str,
    "figure": str,
    "panels": list,
    "scales": list,
    "system": str,
    "ratio": list,
    "difference": list,
    "change": list,
    "spread": bool,
    "over": list,
    "above": (int, float),
    "below": (int, float),
    "published": (int, float),
    "because": str,
}
_PAIRS = ("ratio", "difference", "change")
_VALUE_KEYS: dict[str, type] = dict.fromkeys(("says", "published", "where", "system", "path"), str)
KINDS = ("input", "derived", "predicted")
"""What a published figure is to the model: put in, following from what was, or neither."""
_MEND_FORM = "docs/guide/reproduce.md tells the form of an item"


@dataclass(frozen=True, slots=True)
class Panel:
    """One study of an item: a panel of its figure, or a category of it.

    Attributes:
        label: what stands above it; studies of the same label stand in one panel.
        scale: at which scale it runs, such as ``quick``.
        study: what runs.
    """

    label: str
    scale: str
    study: Study

    @property
    def title(self) -> str:
        """Its label, with the scale where that is not the one that was asked for as a whole."""
        return self.label if self.scale in (QUICK, FULL) else f"{self.label}, {self.scale}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says of an item, in a form that a run can be compared with.

    Attributes:
        says: it in words.
        where: place in the paper.
        kind: one of :data:`KINDS`.
        figure: the column that it is about.
        panels: labels of panels that it is about; all unless any is named.
        scales: scales of them; all unless any is named.
        system: the system that it is about, for values, changes and spreads.
        ratio: two systems: the figure of the first over that of the second.
        difference: two systems: the figure of the first less that of the second, in its unit.
        change: two values of what varies: the figure at the first over that at the second.
        spread: whether it is about the greatest over the least of all values.
        over: values of what varies that it is about; all unless any is named.
        above: what it has to be above.
        below: what it has to be below.
        published: the number that was published.
        because: why it differs, where that is known.
    """

    says: str
    where: str
    kind: str
    figure: str
    panels: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    system: str = ""
    ratio: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    change: tuple[Any, ...] = ()
    spread: bool = False
    over: tuple[Any, ...] = ()
    above: float | None = None
    below: float | None = None
    published: float | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A published value that is an input of the model: it stands in a description.

    Attributes:
        says: what it is.
        published: as the paper has it.
        where: place in the paper.
        system: whose description has it.
        path: where it stands there; several with commas.
    """

    says: str
    published: str
    where: str
    system: str
    path: str


@dataclass(frozen=True, slots=True)
class Item:
    """A table or figure of a paper.

    Attributes:
        paper: the folder of its paper.
        name: its name, such as ``fig4``.
        where: place in the paper.
        shows: what it shows.
        view: one of :data:`VIEWS`.
        over: the parameter that goes from left to right; empty where none does.
        figure: the column that it shows.
        also: further columns that it shows, each in panels of its own.
        relative_to: the system whose figure is 1; empty where figures are shown as they are.
        systems: the machines that it shows, of those that run; all unless any is named.
        columns: columns of its table of numbers, beside what tells rows apart.
        readings: what the paper leaves open, and is our choice.
        lacks: what of it is left out although it runs.
        missing: what the models lack, without which it cannot run.
        wall_s: measured time of all its runs on two processors, by scale.
        claims: what the paper says.
        values: what the paper gives and a description holds.
        said: the file's content.
        mistakes: where mistakes of the file go.
        folder: the folder of the file.
    """

    paper: str
    name: str
    where: str
    shows: str
    view: str
    over: str
    figure: str
    also: tuple[str, ...]
    relative_to: str
    systems: tuple[str, ...]
    columns: tuple[str, ...]
    readings: tuple[str, ...]
    lacks: tuple[str, ...]
    missing: tuple[str, ...]
    wall_s: Mapping[str, float]
    claims: tuple[Claim, ...]
    values: tuple[Value, ...]
    said: Mapping[str, Any] = field(repr=False, compare=False)
    mistakes: Mistakes = field(repr=False, compare=False)
    folder: Path = field(repr=False, compare=False)

    @property
    def full_name(self) -> str:
        """Its name with its paper's, as users type it."""
        return f"{self.paper}/{self.name}"

    @property
    def runs(self) -> bool:
        """Whether the models have what it needs."""
        return not self.missing

    def panels(self, quick: bool) -> list[Panel]:
        """What it runs, at a scale.

        Raises:
            SpecError: with every mistake of the first study that has one.
        """
        asked = QUICK if quick else FULL
        scales = self.said.get("scales", {}).get(asked, [asked])
        return [
            panel
            for scale in scales
            for said in self.said.get("studies", [])
            if (panel := self._panel(said, scale)) is not None
        ]

    def _panel(self, said: Mapping[str, Any], scale: str) -> Panel | None:
        only = said.get("only")
        if only is not None and scale not in only:
            return None
        own = {k: v for k, v in said.items() if k not in ("panel", "at", "only")}
        for table in (self.said.get("at", {}), said.get("at", {})):
            own = _laid_over(table.get(scale, {}), own)
        label = said.get("panel", self.name)
        name = f"{self.full_name}: {label}"
        study = studies.made({"name": name, **own}, self.mistakes, self.folder, name, "")
        return Panel(label, scale, study)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper.

    Attributes:
        name: its folder, which is its name.
        key: as it is cited, such as ``HYB15``.
        title: its title.
        citation: authors, where and when.
        aliases: further names.
        remarks: what holds for all of its items.
        items: its tables and figures.
    """

    name: str
    key: str
    title: str
    citation: str
    aliases: tuple[str, ...]
    remarks: tuple[str, ...]
    items: tuple[Item, ...]

    def item(self, name: str) -> Item | None:
        """The item of that name."""
        return next((one for one in self.items if one.name == name), None)


def papers(folder: Path | None = None) -> tuple[Paper, ...]:
    """All papers, of this package or of a folder, by name.

    Raises:
        SpecError: with every mistake of the first file that has one.
        TierscopeError: where the folder holds none.
    """
    folder = HERE if folder is None else folder
    found = sorted(path.parent for path in folder.glob(f"*/{_PAPER}"))
    if not found:
        mend = f"name a folder with a folder for each paper, each with its {_PAPER}"
        raise TierscopeError("unreadable", f"{folder} holds no experiments", mend)
    return tuple(_paper(one) for one in found)


def chosen(names: Sequence[str], folder: Path | None = None) -> list[Item]:
    """The items that names ask for: ``PAPER/ITEM``, or ``PAPER`` for all that can run.

    Raises:
        TierscopeError: where there is none of that name, or where the models lack what it needs.
    """
    known = papers(folder)
    found: dict[str, Item] = {}
    for name in names:
        of, slash, what = name.partition("/")
        paper = _paper_of(of, known)
        if slash and not what:
            mend = f"write {of} for all of its items, or {of}/{paper.items[0].name} for one"
            raise TierscopeError("unknown-item", f"`{name}` names no item", mend)
        if not slash:
            found |= {one.full_name: one for one in _all_of(paper)}
            continue
        item = paper.item(what)
        if item is None:
            own = [one.name for one in paper.items]
            mend = _check.meant(what, own, f"its items are {', '.join(own)}")
            raise TierscopeError("unknown-item", f"{paper.name} has no item `{what}`", mend)
        if not item.runs:
            raise _cannot(item.full_name, item.missing)
        found[item.full_name] = item
    return list(found.values())


def _paper_of(name: str, known: Sequence[Paper]) -> Paper:
    for paper in known:
        if name in (paper.name, *paper.aliases):
            return paper
    names = [one for paper in known for one in (paper.name, *paper.aliases)]
    mend = _check.meant(name, names, f"there are {', '.join(paper.name for paper in known)}")
    raise TierscopeError("unknown-item", f"there is no paper `{name}`", mend)


def _all_of(paper: Paper) -> list[Item]:
    able = [one for one in paper.items if one.runs]
    if not able:
        raise _cannot(f"no item of {paper.name}", paper.items[0].missing)
    return able


def _cannot(what: str, missing: Sequence[str]) -> TierscopeError:
    verb = "can" if what.startswith("no ") else "cannot"
    return TierscopeError(
        "cannot-run",
        f"{what} {verb} run yet: the models lack {'; '.join(missing)}",
        "`tierscope reproduce` lists what can",
    )


def _read(path: Path) -> tuple[dict[str, Any], Mistakes]:
    text = read_text(path, "an experiment", _MEND_FORM)
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        told = toml_mistake(error)
        problem = Problem("bad-syntax", "", "", told, "write TOML: https://toml.io", str(path))
        raise SpecError([problem]) from None
    return said, Mistakes(Places(str(path), text))


def _check_keys(
    said: object,
    known: Mapping[str, type | tuple[type, ...]],
    needed: Sequence[str],
    mistakes: Mistakes,
    at: str = "",
) -> None:
    """Refuses keys that there are not, values of another type, and the lack of what is needed.

    Raises:
        SpecError: with all of these.
    """
    path = [at] if at else []
    if not isinstance(said, Mapping):
        mistakes.problem("wrong-type", path, "that is no table", _MEND_FORM, said)
        said = {}
    for key, value in said.items():
        if key not in known:
            mend = _check.meant(key, list(known), f"the keys are {', '.join(known)}")
            mistakes.problem("unknown-key", [*path, key], "there is no such key", mend)
        elif not isinstance(value, known[key]):
            reason = f"`{key}` is of another type"
            mistakes.problem("wrong-type", [*path, key], reason, _MEND_FORM, value)
    for key in needed:
        if key not in said:
            mistakes.problem("missing", [*path, key], f"`{key}` is missing", _MEND_FORM)
    mistakes.check()


def _paper(folder: Path) -> Paper:
    said, mistakes = _read(folder / _PAPER)
    _check_keys(said, _PAPER_KEYS, ("key", "title", "citation", "items"), mistakes)
    return Paper(
        name=folder.name,
        key=said["key"],
        title=said["title"],
        citation=said["citation"],
        aliases=tuple(said.get("aliases", ())),
        remarks=tuple(said.get("remarks", ())),
        items=tuple(_item(folder, name) for name in said["items"]),
    )


def _item(folder: Path, name: str) -> Item:
    said, mistakes = _read(folder / f"{name}.toml")
    if "runs_of" in said:
        said, mistakes = _with_runs_of(said, folder, mistakes)
    needed = ["where", "shows"]
    needed += [] if "missing" in said else ["view"]
    for one in said.get("studies", []):
        if not isinstance(one, Mapping):
            mistakes.problem("wrong-type", ["studies"], "that is no table", _MEND_FORM, one)
    _check_keys(said, _ITEM_KEYS, needed, mistakes)
    view = said.get("view", "table")
    if view not in VIEWS:
        mend = _check.meant(str(view), VIEWS, f"the forms are {', '.join(VIEWS)}")
        mistakes.problem("unknown-value", ["view"], "there is no such form", mend, view)
    if not {"studies", "values", "missing"} & set(said):
        mend = "write [[studies]], [[values]], runs_of, or what is `missing`"
        mistakes.problem("missing", ["studies"], "it runs nothing", mend)
    figure = said.get("figure", "time_s")
    mistakes.check()
    claims = tuple(_claim(one, figure, mistakes) for one in said.get("claims", []))
    for one in said.get("values", []):
        _check_keys(one, _VALUE_KEYS, tuple(_VALUE_KEYS), mistakes, "values")
    shown = {"figure": [figure], "also": said.get("also", ()), "columns": said.get("columns", ())}
    shown["claims"] = [one.figure for one in claims]
    _check_figures(shown, mistakes)
    return Item(
        paper=folder.name,
        name=name,
        where=said["where"],
        shows=said["shows"],
        view=view,
        over=said.get("over", ""),
        figure=figure,
        also=tuple(said.get("also", ())),
        relative_to=said.get("relative_to", ""),
        systems=tuple(said.get("systems", ())),
        columns=tuple(said.get("columns", (figure,))),
        readings=tuple(said.get("readings", ())),
        lacks=tuple(said.get("lacks", ())),
        missing=tuple(said.get("missing", ())),
        wall_s=said.get("wall_s", {}),
        claims=claims,
        values=tuple(Value(**one) for one in said.get("values", [])),
        said=said,
        mistakes=mistakes,
        folder=folder,
    )


def _check_figures(shown: Mapping[str, Sequence[Any]], mistakes: Mistakes) -> None:
    """Refuses figures that there are not."""
    for key, names in shown.items():
        for name in names:
            if name not in FIGURES:
                mend = _check.meant(str(name), list(FIGURES), f"there are {', '.join(FIGURES)}")
                mistakes.problem("unknown-value", [key], "there is no such figure", mend, name)
    mistakes.check()


def _with_runs_of(
    said: dict[str, Any], folder: Path, mistakes: Mistakes
) -> tuple[dict[str, Any], Mistakes]:
    """An item that shows the runs of another of its paper in another way."""
    other, _ = _read(folder / f"{said['runs_of']}.toml")
    runs: dict[str, Any] = {key: other[key] for key in ("scales", "at", "studies") if key in other}
    for key in set(runs) & set(said):
        reason = f"`{key}` is that of {said['runs_of']}"
        mistakes.problem("contradiction", [key], reason, "leave one of them out")
    return {**said, **runs}, mistakes


def _claim(said: Mapping[str, Any], figure: str, mistakes: Mistakes) -> Claim:
    _check_keys(said, _CLAIM_KEYS, ("says", "where", "kind"), mistakes, "claims")
    if said.get("kind") not in KINDS:
        mend = f"write one of {', '.join(KINDS)}"
        mistakes.problem("unknown-value", ["claims", "kind"], "there is no such kind", mend)
    for key in _PAIRS:
        if key in said and len(said[key]) != 2:
            reason = f"`{key}` is of two"
            mistakes.problem("wrong-type", ["claims", key], reason, _MEND_FORM, said[key])
    mistakes.check()
    lists = ("panels", "scales", *_PAIRS, "over")
    given: dict[str, Any] = {
        key: tuple(value) if key in lists else value for key, value in said.items()
    }
    return Claim(**{"figure": figure, **given})


def _laid_over(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
    """One table over another: tables within are laid over each other, all else is replaced."""
    found = dict(lower)
    for key, value in upper.items():
        below = found.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = _laid_over(value, below)
        else:
            found[key] = value
    return found
