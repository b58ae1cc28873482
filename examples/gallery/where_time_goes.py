"""
Where the time goes
===================

One workload on three machines: DRAM as a hardware cache of flash, DRAM that the kernel pages to the same flash, and
DRAM alone. The table that is updated at random is twice as large as the DRAM of the first two; it is filled first,
which is counted.
"""

import tierscope as ts

work = ts.workload("gups", table="512MiB", updates=10_000, touched=True)
result = ts.compare(["hybrid/quick", "storage/quick", "oracle/quick"], work)
result.table()

# %%
# The bars are the thread's time by what it was waiting for: for the most part the store, where there is one. The
# kernel's part is that of clearing pages as they are first touched, and with paging that of faults.

result.plot_breakdown()

# %%
# A mean hides what a program meets now and then: an access that waits for the store.

result.plot_latency()

# %%
# How often that is, the whole histogram tells: above, which share takes as long or longer.

result.plot_latency_distribution()

# %%
# Where accesses went in the program's address space: first the table is filled, then it is updated at random.

result.plot_heat_map()
