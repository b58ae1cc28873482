"""
How much DRAM a workload uses
=============================

One pass over a workload gives the miss ratio of caches of every size at once, and how far apart the uses of a page
are: before any machine is chosen. Records of a key-value store, 95 % of the operations reads, by Zipf's law:
"""

import tierscope as ts

info = ts.trace_info(ts.workload("ycsb/b", operations=30_000), block="4KiB")
print(info.table())

# %%
# Two pages have what the program uses again at once, which is nearly all. From there on each doubling spares a
# little, until 64 MiB keep everything: where the store is slow, that little is what counts.

info.plot()
