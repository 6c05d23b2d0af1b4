"""README.md: its code runs, and its tables say what the code says."""

from ..readme import README, code_blocks, generated
from ..support.processes import python


def test_code_blocks_run():
    program = code_blocks(README.read_text(encoding="utf-8"))
    assert program.count("import minitorch_backends") == 1

    printed = python(program)

    assert not printed.error
    assert "tf32" in printed.out
    assert "decided by" in printed.out


def test_generated_parts_are_current():
    text = README.read_text(encoding="utf-8")
    assert text == generated(text), "README.md's tables are out of date: run `make readme`"
