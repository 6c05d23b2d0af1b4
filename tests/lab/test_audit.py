"""Audits: what each layer does to the answers, which layers a budget spares, and where two runs part."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import lab, nn
from minitorch_backends.lab.policy import Policy, Rule, with_few_globs
from minitorch_backends.lab.search import cheapest_levels, option
from minitorch_backends.ops.einsum.precision_plan import unit_cost


class Attend(nn.Module):
    """A module with products of its own around those of its parts."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x):
        return (self.query(x) @ x.mT).softmax(-1) @ x


class Net(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.attend, self.first, self.last = Attend(width), nn.Linear(width, 32), nn.Linear(32, 6)

    def forward(self, x):
        return self.last(self.first(self.attend(x)).relu())


@pytest.fixture(scope="module")
def net():
    mt.manual_seed(0)
    return Net()


@pytest.fixture(scope="module")
def x():
    mt.manual_seed(1)
    return mt.randn(40, 5, 24)


@pytest.fixture(scope="module")
def found(net, x):
    return lab.audit(net, x, ("tf32", "bf16"), "logits")


def test_rows_of_layers_and_products(found):
    keys = [(row["module"], row["product"]) for row in found.rows if row["precision"] == "bf16"]
    layers = ["attend.query", "attend", "first", "last"]
    assert keys == [
        *((name, "forward") for name in (None, *layers)),
        *((name, "input gradient") for name in (None, "attend", "first", "last")),  # the model's input needs none
        *((name, "weight gradient") for name in (None, "attend.query", "first", "last")),
    ]
    for row in found.rows:
        roundoff = 2.0**-8 if row["precision"] == "bf16" else 2.0**-11
        assert roundoff / 30 < row["local_error"] < 2 * roundoff
        assert 0 < row["error"] < 4 * roundoff
    assert found.whole("bf16")["flops"] == 2 * 200 * (24 * 24 + 2 * 5 * 24 + 24 * 32 + 32 * 6)
    assert found.whole("bf16")["log_probability_error"] > found.whole("tf32")["log_probability_error"] > 0


@pytest.mark.parametrize("product", ["forward", "input gradient", "weight gradient"])
def test_errors_of_layers_add_in_quadrature(found, product):
    frontier = found.frontier(verify=2, product=product)
    measured = [point for point in frontier if point.measured]
    assert len(measured) == 2
    assert frontier.subject == ("outputs" if product == "forward" else "gradients")
    for point in measured:
        assert point.predicted == pytest.approx(point.measured, rel=0.35)
    assert [point.share for point in frontier] == sorted(point.share for point in frontier)
    assert frontier[-1].kept == ()


def test_without_a_budget_everything_is_fast(found):
    assert found.kept == ()
    assert found.error == found.whole("bf16")["log_probability_error"]


def test_a_budget_keeps_few_layers_and_the_same_twice(net, x):
    whole = lab.audit(net, x, gradients=False).whole("bf16")["error"]
    first, second = (lab.audit(net, x, budget=0.7 * whole, gradients=False) for _ in range(2))
    assert first.kept == second.kept
    assert 0 < len(first.kept) < 4
    assert first.policy == second.policy
    assert first.error <= 0.9 * 0.7 * whole
    with nn.utils.run_under(net, first.policy), mt.no_grad():
        answers = net(x).numpy()
    with mt.no_grad():
        truth = net(x).numpy()
    assert np.linalg.norm(answers - truth) / np.linalg.norm(truth) == pytest.approx(first.error, rel=1e-3)
    mt.manual_seed(2)
    assert first.measure_on(mt.randn(60, 5, 24))["error"] <= 0.7 * whole
    assert json.loads(first.to_json())["kept"] == list(first.kept)


def test_a_budget_of_gradients_searches_all_products(net, x):
    def gradients():
        outputs = net(x)
        weights = mt.from_numpy(np.random.default_rng(0).standard_normal(outputs.shape)).float()
        return np.concatenate([each.numpy().ravel() for each in mt.autograd.grad(outputs, net.parameters(), weights)])

    found = lab.audit(net, x, budget={"error": 4e-3, "gradient_error": 2e-3})
    assert found.whole("bf16")["gradient_error"] > 2e-3
    kept = [*found.kept, *found.kept_gradients["input gradient"], *found.kept_gradients["weight gradient"]]
    assert 0 < len(kept) < 10
    assert found.error <= 0.9 * 4e-3
    assert found.measured["gradient_error"] <= 0.9 * 2e-3
    truth = gradients()
    with nn.utils.run_under(net, found.policy):
        error = np.linalg.norm(gradients() - truth) / np.linalg.norm(truth)
    assert error == pytest.approx(found.measured["gradient_error"], rel=1e-3)
    assert found.measure_on(x) == found.measured
    assert f"the input gradients of {len(found.kept_gradients['input gradient'])} and the" in found.summary()
    for rule in found.policy.rules.values():
        assert {rule.forward["fp32_precision"], rule.input_gradient, rule.weight_gradient} <= {"bf16", "tf32", "ieee"}


def test_ranges_of_operands():
    mt.manual_seed(0)
    layer = nn.Linear(8, 4, bias=False)
    x = mt.full((3, 8), 1e5)
    x[0, 0] = 1e-9
    (row,) = lab.audit(layer, x, "tf32", gradients=False, formats=["e2m1"]).layers()
    assert row["operands"][0]["fp16"] == {"overflow": 23, "saturated": 0, "underflow": 1, "subnormal": 0, "size": 24}
    assert row["operands"][0]["e2m1"]["saturated"] == 23
    assert row["operands"][0]["bf16"] == {"overflow": 0, "saturated": 0, "underflow": 0, "subnormal": 0, "size": 24}
    assert row["operands"][1]["e4m3"]["saturated"] == 0
    products = {row["product"] for row in lab.audit(layer, x, "tf32").rows}
    assert products == {"forward", "weight gradient"}  # the input of the model needs no gradient


COSTS = {"e4m3": 1, "bf16": 2, "tf32": 4, "ieee": 32}
ROUNDING = {"e4m3": 16.0, "bf16": 1.0, "tf32": 0.125, "ieee": 0.0}


@pytest.mark.parametrize("weights", [[9, 5, 4, 3, 1], [5, 5, 5, 5, 5], [100, 1, 1, 1, 1]])
@pytest.mark.parametrize("budget", [0, 1.1, 4, 8.5, 30, 2000])
def test_search_is_monotone_and_spares_nothing_in_vain(weights, budget):
    """Against all choices of levels for layers of equal cost whose errors add in quadrature."""

    def error(levels):
        return np.linalg.norm([weights[place] * ROUNDING[level] for place, level in levels.items()])

    def cost(levels):
        return sum(COSTS[level] for level in levels.values())

    found = {}
    for offers in (("bf16",), ("tf32",), ("tf32", "bf16"), ("e4m3", "bf16"), ("e4m3", "bf16", "tf32")):
        options = {
            place: {each: option(COSTS[each], weight * ROUNDING[each] / (budget or 1e-9)) for each in (*offers, "ieee")}
            for place, weight in enumerate(weights)
        }
        levels = found[offers] = cheapest_levels(options, "ieee", lambda levels: error(levels) <= budget)
        assert error(levels) <= budget
        for place, level in levels.items():
            cheaper = [each for each in offers if COSTS[each] < COSTS[level]]
            assert all(error({**levels, place: each}) > budget for each in cheaper)
        choices = [dict(enumerate(each)) for each in itertools.product((*offers, "ieee"), repeat=5)]
        least = min(cost(each) for each in choices if error(each) <= budget)
        assert cost(levels) <= 1.2 * least
        assert all(cost(levels) <= cost(other) for fewer, other in found.items() if set(fewer) < set(offers))


def test_search_fails_where_not_even_the_exact_level_holds():
    options = {"a": {"bf16": option(1, 1.0), "ieee": option(2, 0.0)}}
    assert cheapest_levels(options, "ieee", lambda levels: False) is None


def test_search_asks_nothing_of_levels_that_cannot_be_cheaper():
    """Each question is a run of the model."""
    asked = []
    options = {place: {level: option(COSTS[level], 0.1) for level in COSTS} for place in range(3)}
    assert cheapest_levels(options, "ieee", lambda levels: not asked.append(levels)) == dict.fromkeys(range(3), "e4m3")
    assert len(asked) == 1


@pytest.fixture(scope="module")
def deep():
    mt.manual_seed(0)
    layers = (each for _ in range(6) for each in (nn.Linear(64, 64), nn.ReLU()))
    return nn.Sequential(*layers, nn.Linear(64, 8)).eval(), mt.randn(64, 64)


def test_a_further_precision_makes_no_policy_more_expensive(deep):
    model, x = deep
    whole = lab.audit(model, x, "bf16", gradients=False).whole("bf16")["error"]
    costs = []
    for precisions in (("tf32", "bf16"), ("tf32", "bf16", "e4m3")):
        found = lab.audit(model, x, precisions, budget=0.9 * whole, gradients=False)
        assert found.is_met
        assert found.error <= 0.9 * whole
        with found.policy, mt.explain.record() as log, mt.no_grad():
            model(x)
        assert {each.module: each.precision for each in log} == found.levels["forward"]
        assert sum(found.shares.values()) == pytest.approx(1)
        assert all(f"{share:.1%} at {name}" in found.summary() for name, share in found.shares.items())
        costs.append(sum(unit_cost(each.precision) * each.shapes[1][0] for each in log))
    assert costs[1] <= costs[0]


def test_a_budget_that_cannot_be_met_is_called_so(deep):
    model, x = deep

    def metric(answer, truth):  # against labels: the error of the model itself is 0.5
        return 0.5 + float((answer - truth).abs().max())

    found = lab.audit(model, x, "bf16", metric, 0.04, gradients=False)
    assert not found.is_met
    assert found.least == {"metric": 0.5}
    assert found.error == 0.5
    assert "A budget of metric at most 0.04 cannot be met: the least is metric 0.5." in found.summary()
    assert set(found.levels["forward"].values()) == {"ieee"}
    assert lab.audit(model, x, "bf16", metric, 0.5, gradients=False).is_met, "what the margin excludes may be exact"


def test_an_audit_asked_later_has_its_flags(net, x):
    with mt.backends.flags(fp32_precision="bf16x3"):
        found = lab.audit(net, x, "bf16", gradients=False)
    with mt.backends.flags(fp32_precision="bf16"):
        assert found.measure_on(x) == found.measured
        assert found.frontier(verify=1)[-1].measured == found.measured["error"] > 0
    below = "Errors are relative to flags at which products are below ieee."
    assert [below in str(each) for each in (found, lab.audit(net, x, "bf16", gradients=False))] == [True, False]


class Odd(nn.Module):
    """Outputs as transformers have them: a dict with a cache and None among them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return {"logits": self.layer(x).bfloat16(), "cache": object(), "loss": None}


def test_outputs_with_caches_and_half_types():
    found = lab.audit(Odd(), mt.randn(3, 8), "bf16", "logits", gradients=False)
    assert found.whole("bf16")["error"] > 0


def test_policies_have_few_globs():
    rules = {
        f"blocks.{n}.{name}": Rule({"fp32_precision": "bf16"}) for n in range(12) for name in ("up", "down", "qkv")
    }
    rules |= {f"blocks.{n}.down": Rule({"fp32_precision": "tf32"}) for n in range(12)}
    rules |= {"head": Rule({"fp32_precision": "ieee"}), "blocks.0.up": Rule({"fp32_precision": "ieee"})}
    found = with_few_globs(rules)
    assert len(found) == 4
    assert all(Policy(found).rule_of(name) == rule for name, rule in rules.items())


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.lists(st.sampled_from(["a", "b[", "0", "1", "*"]), min_size=0, max_size=4).map(".".join),
                       st.sampled_from(["bf16", "tf32", "ieee"]), min_size=1, max_size=12))  # fmt: skip
def test_globs_say_the_same_of_each_layer(levels):
    rules = {name: Rule({"fp32_precision": level}) for name, level in levels.items()}
    found = with_few_globs(rules)
    assert len(found) <= len(rules)
    assert all(Policy(found).rule_of(name) == rule for name, rule in rules.items())


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"precisions": "fp7"}, ValueError, "'fp7' is not a precision"),
        ({"metric": "accuracy"}, ValueError, "metric must be 'logits', .*'language', .* got 'accuracy'"),
        ({"budget": {"speed": 1}}, ValueError, "budget must be non-negative bounds of measures"),
        ({"budget": -1}, ValueError, "budget must be non-negative bounds of measures"),
        ({"formats": ["fp3"]}, ValueError, "format must be one of"),
    ],
)
def test_mistakes(options, error, sentence):
    with pytest.raises(error, match=sentence):
        lab.audit(nn.Linear(2, 2), mt.ones(1, 2), **options)


def test_models_that_cannot_be_audited():
    with pytest.raises(TypeError, match="model must be a Module"):
        lab.audit(lambda x: x, mt.ones(2))
    with pytest.raises(ValueError, match="precisions affect nothing in this ReLU"):
        lab.audit(nn.ReLU(), mt.ones(2))
    with pytest.raises(ValueError, match="or of 'gradient_error' where gradients are audited"):
        lab.audit(nn.Linear(2, 2), mt.ones(1, 2), budget={"gradient_error": 1}, gradients=False)
    with pytest.raises(RuntimeError, match="two calls of the model gave different outputs"):
        lab.audit(nn.Sequential(nn.Linear(50, 50), nn.Dropout()), mt.ones(2, 50))
    with pytest.raises(ValueError, match="product must be one that was audited \\('forward'\\), got 'weight gradient'"):
        lab.audit(nn.Linear(2, 2), mt.ones(1, 2), gradients=False).frontier(product="weight gradient")


def test_page_and_picture(found, tmp_path):
    found.plot(tmp_path / "audit.png")
    found.frontier().plot(tmp_path / "frontier.png")
    found.report(tmp_path / "audit.html")
    assert (tmp_path / "audit.png").read_bytes()[:4] == (tmp_path / "frontier.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "attend.query" in page
    assert "log_probability_error" in page
    assert "http" not in page.replace("http-equiv", "")


def test_first_divergence(net, x, tmp_path):
    def capture(name, change=0.0, **flags):
        with mt.backends.flags(**flags), lab.capture(tmp_path / name):
            net.last.weight.data += change
            net(x)
            net.last.weight.data -= change
        return tmp_path / name

    plain, lower = capture("plain.run"), capture("lower.run", fp32_precision="bf16")
    assert lab.first_divergence(plain, capture("again.run")) is None
    assert lab.first_divergence(plain, lower) is None  # bf16 explains the difference
    changed = capture("changed.run", change=0.05)
    wrong = lab.first_divergence(plain, changed)
    assert (wrong.module, wrong.precisions) == ("last", ("ieee", "ieee"))
    assert wrong.error > 100 * wrong.explained
    assert "in module 'last': differs by" in str(wrong)


class Pointwise(nn.Module):
    """A linear map as a matrix product, or as a convolution."""

    def forward(self, x, weight):
        return nn.functional.conv1d(x.mT, weight[..., None]).mT if self.by_conv else x @ weight.T


def test_first_divergence_names_what_it_skips(tmp_path):
    def capture(name, by_conv, change=0.0):
        part.by_conv = by_conv
        with lab.capture(tmp_path / name):
            net(part(mt.ones(2, 3, 8), mt.eye(8)) + change)
        return tmp_path / name

    part, net = Pointwise(), nn.Linear(8, 4)
    plain, other, changed = capture("a.run", False), capture("b.run", True), capture("c.run", True, change=1.0)
    with pytest.warns(UserWarning, match=r"by different kernels: module '\(itself\)', forward: matmul against conv"):
        assert lab.first_divergence(plain, other) is None
    with pytest.warns(UserWarning, match="matmul against conv"):
        assert lab.first_divergence(plain, changed).error > 0.1


def test_search_among_hundreds_asks_tens():
    random, asked = np.random.default_rng(0), []
    weights = random.lognormal(0, 1, 300) / 10
    options = {place: {"bf16": option(1, each), "ieee": option(2, 0.0)} for place, each in enumerate(weights)}

    def holds(levels):
        asked.append(levels)
        return np.linalg.norm([weights[place] for place, level in levels.items() if level == "bf16"]) <= 1

    levels = cheapest_levels(options, "ieee", holds)
    assert holds(levels)
    assert len(asked) < 25
    low = [weights[place] for place, level in levels.items() if level == "bf16"]
    assert len(low) == np.searchsorted(np.cumsum(np.sort(weights) ** 2), 1.0), "as many as there can be"


def test_a_short_table_says_what_it_leaves_out() -> None:
    few = mt.nn.Sequential(*(mt.nn.Linear(4, 4) for _ in range(8))).eval()
    many = mt.nn.Sequential(*few, mt.nn.Linear(4, 4)).eval()
    x = mt.randn(2, 4)
    with mt.no_grad():
        sentence = "The table has the 8 worst of 9 layers. "
        for shown in (str, lambda audit: audit._repr_html_()):
            assert sentence in shown(lab.audit(many, x, "bf16"))
            assert "The table has" not in shown(lab.audit(few, x, "bf16"))
