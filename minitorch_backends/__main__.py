"""`python -m minitorch_backends`: the command `minitorch-backends`."""

import sys

from .cli import main

sys.exit(main())
