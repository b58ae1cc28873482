"""Published tables and figures, run on the machines of this package, beside what was published.

``catalog`` reads what there is from ``experiments/``, a folder a paper and a file an item;
``figures`` are the numbers that items show, ``claims`` compares them with published ones, ``run``
runs items as sweeps, and ``views``, ``plots`` and ``pages`` are what a reader sees.
"""
