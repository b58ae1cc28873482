"""Pages: a result, a comparison or a sweep as one HTML file that needs no network.

``charts`` has the figures of results, ``sweep_charts`` those of sweeps, as Vega-Lite describes
them; ``page`` puts them into a page, and ``report`` says which belong to what.
"""
