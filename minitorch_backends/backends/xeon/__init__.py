"""torch's launcher of several instances of a program: `python -m minitorch_backends.backends.xeon.run_cpu`."""
