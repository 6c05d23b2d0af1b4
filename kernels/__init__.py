from . import first_use  # noqa: F401  (before the modules that it has executed)
