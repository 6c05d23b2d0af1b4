"""The operations: one decorated block each. Importing a module declares its ops and installs their methods.

A module is loaded when one of its names is first used; the generated `minitorch_backends.index` says which. `names` has
the functions that are names of the package.
"""
