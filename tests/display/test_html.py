"""What notebooks show: HTML of every result, well formed and escaped, and a tutorial run cell by cell."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, profiles
from minitorch_backends.display.html import Lines, Rows, as_html, resource

from ..support.pages import ROOT
from ..support.processes import python

NAME = "<b>&"
"""A name in the results below that HTML must escape."""


class Balanced(HTMLParser):
    """Checks that elements close in order, and collects their names and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.found, self.text = list[str](), list[str](), ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if "style" in self.open else data


def model() -> mt.nn.Module:
    found = mt.nn.Sequential()
    found.add_module(NAME, mt.nn.Linear(4, 4))
    found.add_module("last", mt.nn.Linear(4, 2))
    return found.eval()


def double(x: mt.Tensor) -> mt.Tensor:
    return x * 2


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, net, x = tmp_path_factory.mktemp("runs"), model(), mt.ones(3, 4)
    runs = []
    for precision in ("ieee", "bf16"):
        with backends.flags(fp32_precision=precision), mt.no_grad(), lab.capture(folder / f"{precision}.run"):
            net(x + 0.123)
        runs.append(folder / f"{precision}.run")
    audit = lab.audit(net, x + 0.123, ["bf16"], progress=False)
    flags = {"fp32_precision": ["ieee", "bf16"]}
    sweep = lab.sweep(lambda name, seed: mt.randn(4, 4) @ mt.randn(4, 4), over={"name": [NAME]}, flags=flags,
                      repeats=1, progress=False)  # fmt: skip
    with explain.record() as log:
        net(x)
    plan = mt.einsum_plan("ab,bc,cd", (2, 3), (3, 4), (4, 5))
    return {
        "Sweep": sweep, "Pareto": sweep.pareto(y="max_abs", by=["name"]), "Audit": audit, "Frontier": audit.frontier(),
        "Policy": audit.policy, "Comparison": lab.compare(*runs), "Plan": plan, "Log": log,
        "Certificate": lab.certificate(double, x, capabilities=()), "Sensitivity": explain.sensitivity(net, x),
        "Why": explain.why("matmul", x, mt.ones(4, 4)), "Profile": profiles.PROFILES["h100"],
        "flags": backends.cuda.matmul, "Snapshot": backends.snapshot(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Sweep", [NAME, "fp32_precision=bf16", "max_ulp"]),
        ("Pareto", [NAME, "seconds", "*"]),
        ("Audit", [NAME, "local error", "keep a higher precision"]),
        ("Frontier", ["share", "100.0%"]),
        ("Policy", ["modules", "fp32_precision='bf16'"]),
        ("Comparison", [NAME, "differs", "precision ieee -> bf16"]),
        ("Plan", ["ab,bc->ac", "flops/element"]),
        ("Log", [NAME, "matmul", "implementation"]),
        ("Certificate", ["holds in", "rows 0 to 1 of 3", "the same bits"]),
        ("Sensitivity", [NAME, "error of answers"]),
        ("Why", ["matmul of 3x4 @ 4x4 runs by", "runs"]),
        ("Profile", ["h100", "e4m3", "hardware"]),
        ("flags", ["allow_tf32", "False", "backends.cuda.matmul"]),
        ("Snapshot", ["all flags at their defaults"]),
    ],
)
def test_notebooks_show_results_as_tables(results: dict[str, Any], name: str, words: list[str]) -> None:
    page = Balanced(results[name]._repr_html_())
    assert [word for word in words if word not in page.text] == []
    assert ("table" in page.found) == (name != "Snapshot")
    assert "b" not in page.found


def test_long_tables_say_how_much_they_leave_out() -> None:
    text = as_html(
        "one <two>", Lines("a\n  b"), Rows([("x", "y"), *((str(n), "1") for n in range(70))], 1, 0, ["tip"] * 70)
    )
    page = Balanced(text)
    assert page.found.count("tr") == 1 + 60
    assert "and 10 more rows" in page.text
    assert "a\n  b" in page.text
    assert text.count('title="tip"') == 60


def test_notebooks_take_the_colours_of_the_page() -> None:
    """No colour of its own stands in the style, so that it is read on light and dark pages."""
    style = resource("notebook.css")
    assert "#" not in style
    assert "rgb(" not in style


def test_a_tutorial_runs_as_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("IPython", reason="notebooks need IPython, which the extra `test` brings")
    done = python(
        f"""
import re
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={{"enabled": False}}))
shell.display_formatter.active_types = ["text/plain", "text/html", "image/png"]
text = Path({str(ROOT / "docs/tutorials/contractions.md")!r}).read_text(encoding="utf-8")
cells = re.findall(r"^```python\\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
assert len(cells) > 4
for cell in cells:
    shell.run_cell(cell).raise_error()
for name in ("plan", "plan.plot()", "mt.backends.opt_einsum", "mt.backends.snapshot()"):
    shown = shell.display_formatter.format(shell.ev(name))[0]
    print(name, *sorted(shown))
""",
        IPYTHONDIR=str(tmp_path),  # the home folder may be read-only
    )
    assert not done.error
    lines = [line for line in done.out.splitlines() if " image/png" in line or " text/html" in line]
    assert lines[-4:] == [
        "plan text/html text/plain", "plan.plot() image/png text/plain",
        "mt.backends.opt_einsum text/html text/plain", "mt.backends.snapshot() text/html text/plain",
    ]  # fmt: skip


def test_numbers_stay_on_one_line() -> None:
    shown = as_html(Rows([("name", "a", "b"), ("1e-3", "1.9e-03", "bf16")]))
    assert '<td class="name">1e-3</td><td class="number">1.9e-03</td><td>bf16</td>' in shown
    rules = (".number { white-space: nowrap; }", " table tr .name { text-align: left; }")  # before those of Jupyter
    assert [rule for rule in rules if rule not in shown] == []
