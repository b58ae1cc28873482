"""
Can flash replace DRAM for my program?
======================================

The question of the papers, asked of a program of your own: here ``sort``, with a hundred thousand numbers. It is
recorded once, as it runs; then the recording runs on machines with less and less DRAM.
"""

import tempfile
from pathlib import Path

import tierscope as ts

scratch = tempfile.TemporaryDirectory()
directory = Path(scratch.name)
numbers = directory / "numbers.txt"
numbers.write_text("\n".join(str(i * 7919 % 1_000_003) for i in range(100_000)))
recording = ts.record(
    ["sort", "--parallel=1", f"--output={directory / 'sorted.txt'}", str(numbers)],
    directory / "sort.tst",
)
accesses = recording.totals["loads"] + recording.totals["stores"]
print(f"{accesses / 1e6:.0f} million accesses in {recording.file_bytes / 1e6:.0f} MB")

# %%
# How much memory it uses, and how often: the miss ratio at each size.

ts.trace_info(f"trace:{directory / 'sort.tst'}", block="4KiB").plot()

# %%
# Three machines: a hardware cache of flash, the kernel's paging to the same flash, and all in DRAM, which is what
# the others are compared with. One name, ``DRAM``, stands for the size in each of them.

study = ts.study(
    ["hybrid/quick", "storage/quick", "oracle/quick"],
    [f"trace:{directory / 'sort.tst'}"],
    {
        "DRAM": {
            "paths": ["hybrid.cache.capacity", "storage.dram_capacity"],
            "values": ["4MiB", "6MiB", "8MiB", "16MiB"],
        }
    },
    name="sort in little DRAM",
)
done = ts.sweep(study, directory / "sweep")
assert done.complete
done.table().select("system", "DRAM", "time_s", "miss_rate", "energy_j")

# %%
done.plot_lines("DRAM", ["time_s", "miss_rate"])

# %%
# Hardware does not mind: its DRAM is asked for lines that leave the on-chip caches, which have 32 MiB in these machines,
# more than ``sort`` uses. A page that the kernel moves out is gone from them, too. With a last level of 1.25 MiB in its
# description ``hybrid/quick`` takes 142 ms with 4 MiB of DRAM, and 89 ms from 8 MiB on.
#
# And why, where there is least: what the thread was waiting for.

done.result(1).plot_breakdown()

# %%
# From here: the same with your program in place of ``sort``, and with the machine that you have in mind in place of
# a preset (``tierscope init hybrid/quick``). For prices, limits of DRAM and the front of what is best there is
# ``tierscope advise``.
