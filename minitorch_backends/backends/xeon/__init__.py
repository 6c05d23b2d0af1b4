"""torch's name for the CPU launcher; its modules are those of `compat.xeon`."""

from ...compat.xeon import __path__ as __path__
