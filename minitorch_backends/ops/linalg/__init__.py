"""Linear algebra. The names of `mt.linalg` are in its own module, those of the package in `ops`."""
