"""A product of two square matrices by numpy, whole.

usage: matmul.py ROWS
"""

import sys

import numpy

rows = int(sys.argv[1])
values = numpy.random.default_rng(1)
one, other = values.random((rows, rows)), values.random((rows, rows))
product = one @ other
print(f"{rows} rows, trace {numpy.trace(product):.6f}, numpy {numpy.__version__}")
