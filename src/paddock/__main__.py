"""`python -m paddock`: the same as `paddock`."""

import sys

from paddock.cli import main

sys.exit(main())
