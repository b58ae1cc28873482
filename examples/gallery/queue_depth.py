"""
Drives by queue depth
=====================

A drive alone, without a machine around it: random reads and writes of 4 KiB, with more and more of them under way.
Bandwidth grows until the flash is busy; from there on requests only wait longer.
"""

import tempfile

import tierscope as ts

study = ts.study(
    ["device/z-ssd/quick", "device/970-pro/quick"],
    [ts.workload("random", requests=20_000, size="4KiB", reads=0.7)],
    {"workload.outstanding": [1, 2, 4, 8, 16, 32, 64, 128]},
    name="queue depth",
)
with tempfile.TemporaryDirectory() as directory:
    done = ts.sweep(study, directory)
    figure = done.plot_lines(
        "workload.outstanding", ["device_bytes_per_s", "latency_mean_ns", "latency_p99_ns"]
    )
assert done.complete

# %%
figure
