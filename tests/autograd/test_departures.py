"""Each departure from torch that the README lists is shown by a test of that name."""

from pathlib import Path

from ..support.departures import AUTOGRAD_DEPARTURES


def test_every_departure_has_a_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert not [name for name in AUTOGRAD_DEPARTURES if f"def {name}(" not in text]
