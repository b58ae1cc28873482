"""`python -m tierscope`."""

import sys

from tierscope.cli import main

sys.exit(main())
