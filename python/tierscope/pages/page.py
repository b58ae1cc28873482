"""One HTML page that needs no network: figures drawn by Vega, whose code it holds."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tierscope import _core
from tierscope.errors import TierscopeError
from tierscope.pages.chart import Spec

VEGA_LITE = "6.4"
"""The version of Vega-Lite that draws: the newest that vl-convert has."""
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; color: #1a1a1a;
  background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; }
.state { display: inline-block; border: 1px solid; border-radius: .3rem; padding: 0 .5rem;
  font-weight: 600; }
.complete { color: #005a32; } .partial, .sampled { color: #8a3b00; }
.scroll { overflow: auto; max-height: 70rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; white-space: pre; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #1a1a1a; vertical-align: bottom; }
tbody tr:nth-child(even) { background: #f4f4f4; }
td.text { text-align: left; }
figure { margin: 2rem 0; overflow-x: auto; break-inside: avoid; }
figure svg { max-width: 100%; height: auto; }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; font-size: 12px; }
summary { cursor: pointer; font-weight: 600; }
footer { margin-top: 3rem; border-top: 1px solid #bbb; color: #444; font-size: .85rem; }
.vega-embed details { font-size: 12px; }
@media print { body { max-width: none; margin: 0; } .vega-embed details, details { display: none; }
  figure { overflow: visible; } .scroll { max-height: none; overflow: visible; }
  table { font-size: .7rem; } th, td { padding-right: .4rem; white-space: pre-wrap; } }
caption { text-align: left; }
"""
_DRAW = """
document.querySelectorAll('figure[data-spec]').forEach(function (figure) {
  var spec = JSON.parse(document.getElementById(figure.dataset.spec).textContent);
  var place = document.createElement('div');
  vegaEmbed(place, spec, { renderer: 'svg', actions: { export: true, source: false,
    compiled: false, editor: false }, loader: { http: {}, target: '_self' } })
    .then(function () { figure.replaceChildren(place); });
});
"""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
    "script-src 'unsafe-inline' 'unsafe-eval'"
)
"""Nothing may be loaded, whatever a page holds; Vega makes functions of its expressions."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page.

    Attributes:
        heading: what stands above its columns.
        rows: its cells.
        texts: how many columns, from the left, are texts.
        caption: what it is; empty where it needs no word.
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows.

    Attributes:
        title: its title.
        state: ``complete``, ``sampled`` or ``partial``.
        remarks: what is read first.
        tables: its tables.
        charts: its figures.
        notes: what stands below them.
        texts: further texts, folded, by title: descriptions of machines.
    """

    title: str
    state: str
    remarks: Sequence[str]
    tables: Sequence[Table]
    charts: Sequence[Spec]
    notes: Sequence[str]
    texts: Sequence[tuple[str, str]]

    def html(self) -> str:
        """The page.

        Raises:
            TierscopeError: where the package that has Vega's code is not installed.
        """
        vega = _vega()
        figures = [_figure(number, spec) for number, spec in enumerate(self.charts)]
        parts = [
            f"<h1>{html.escape(self.title)}</h1>",
            f'<p><span class="state {self.state}">{self.state}</span></p>',
            *(f"<p>{html.escape(remark)}</p>" for remark in self.remarks),
            *map(_table, self.tables),
            *figures,
            *(f"<p>{html.escape(note)}</p>" for note in self.notes),
            *map(_folded, self.texts),
            f"<footer>tierscope {html.escape(_core.version())}. Figures are drawn by Vega-Lite, "
            "whose code this page holds (BSD 3-Clause).</footer>",
        ]
        body = "\n".join(parts)
        return (
            "<!DOCTYPE html>\n"
            '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n{body}\n<script>{vega}</script>\n<script>{_DRAW}</script>\n"
            "</body>\n</html>\n"
        )


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ImportError:
        raise TierscopeError(
            "no-vega",
            "no page can be written: the package `vl-convert-python` is not installed",
            "install it: pip install vl-convert-python",
        ) from None
    code: str = vl_convert.javascript_bundle(None, VEGA_LITE)  # type: ignore[arg-type]
    return code.replace("</script", "<\\/script")


def _figure(number: int, spec: Spec) -> str:
    """A figure: drawn beforehand, for readers without scripts; a script makes it answer."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE)
    said = json.dumps(spec, ensure_ascii=False).replace("<", "\\u003c")
    title = html.escape(str(spec["description"]), quote=True)
    return (
        f'<figure data-spec="spec-{number}" aria-label="{title}">{drawn}</figure>\n'
        f'<script type="application/json" id="spec-{number}">{said}</script>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.heading)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=text' if number < table.texts else ''}>{html.escape(cell)}</td>"
            for number, cell in enumerate(row)
        )
        + "</tr>\n"
        for row in table.rows
    )
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    return (
        f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _folded(text: tuple[str, str]) -> str:
    title, content = map(html.escape, text)
    return f"<details><summary>{title}</summary><pre>{content}</pre></details>"
