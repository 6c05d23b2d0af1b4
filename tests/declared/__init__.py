"""Samples and references of the ops, under the paths of `minitorch_backends/ops/`, joined to the registry by name."""
