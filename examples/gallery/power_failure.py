"""
What a missing safeguard loses
==============================

HAMS promises that what reached its NVDIMM survives a power failure, whatever was under way. Here power fails at
forty moments in which something could be harmed; each time the machine recovers, and every line is compared with
what was promised.
"""

import tierscope as ts

work = ts.workload("gups", table="48MiB", updates=2000)
kept = ts.crash("hams-le/quick", work, points=40, adversarial=True)
assert kept.holds
kept.table()

# %%
# The same without the journal tags, which tell recovery what the drive had not finished. The check finds what is
# lost.

lost = ts.crash("hams-le/quick", work, points=40, adversarial=True, weaken="no-journal-tags")
assert not lost.holds
lost.table()

# %%
# One of these failures, from what was under way to what recovery did:

point = lost.data["failing"][0]["point"]
ts.crash("hams-le/quick", work, weaken="no-journal-tags", replay=point).plot_timeline()
