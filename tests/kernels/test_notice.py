"""The line on stderr of calls that compile for longer than a second."""

import pytest

from minitorch_backends.kernels.runtime import notice

from ..support.processes import python

SLOW = """
import time
from minitorch_backends.kernels.runtime import compiler, jit, notice

compile_core = compiler.Compiler._compile_core
def slowly(self):
    time.sleep(0.6)
    return compile_core(self)

compiler.Compiler._compile_core = slowly
notice._PATIENCE = 0.7
functions = [jit.njit(cache=False)(lambda x: x + 3) for _ in range(6)]
"""
"""Six functions that take at least 0.6 s each to compile."""


@pytest.mark.parametrize(("asked", "lines"), [("1", 2), ("0", 0), ("", 0)])
def test_one_line_for_a_call_that_compiles_for_long(asked, lines):
    """Two calls compile three functions each. stderr is not a terminal here."""
    code = SLOW + "print(sum(f(1) for f in functions[:3]))\nprint(sum(f(1) for f in functions[3:]))\n"
    printed = python(code, MINITORCH_COMPILE_NOTICE=asked, MINITORCH_CPU_CAPABILITY="portable")
    assert printed.out == "12\n12\n"
    found = printed.error.splitlines()
    assert len(found) == lines, printed.error
    for line in found:
        assert line.startswith("minitorch_backends: compiling ")
        assert "for portable, once on this machine" in line


def test_a_terminal_is_told(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.delenv(notice.VARIABLE, raising=False)
    assert not notice._wants_notice()
    monkeypatch.setattr("sys.stderr", Terminal())
    assert notice._wants_notice()
    monkeypatch.setenv(notice.VARIABLE, "0")
    assert not notice._wants_notice()
    monkeypatch.delenv(notice.VARIABLE)
    monkeypatch.setattr("sys.stderr", None)
    assert not notice._wants_notice()
