"""What every test shares: how hypothesis looks for examples."""

import os

from hypothesis import settings

# An example may compile a kernel, so no deadline. CI draws the same examples every time; elsewhere they vary.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
