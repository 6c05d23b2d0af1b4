"""The folder on `PYTHONPATH` of a torch program, for its `sitecustomize`."""
