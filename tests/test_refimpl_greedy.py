"""What the search of plans owes: its parts compute what they say, its plans are as good as they were, and it is not slow.

A plan that it finds is verified in balls (``test_plan``), so nothing here is about privacy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from refimpl import curves, greedy
from refimpl.curves import cases_of
from refimpl.plan import covariance_change, gate_failure

RESERVE = 1e-9
"""As the search states it: the law is made for a delta that is so much smaller."""


@pytest.fixture(autouse=True)
def _thirty_digits() -> Iterator[None]:
    with mpmath.workdps(30):
        yield


# The curve of two normal laws -----------------------------------------------------------------------------------------


def two_normals(width: float, e: Any) -> Any:
    """HS_e of N(width, 1) and N(0, 1), at any e."""
    width, e = mpf(width), mpf(e)
    return mp.ncdf(width / 2 - e / width) - mp.exp(e) * mp.ncdf(-width / 2 - e / width)


def bent(width: float, tilt: float, at: float, e: Any) -> Any:
    """The curve of a model: tilted at e >= 0, and for e < 0 that of the exchanged laws."""
    if e < 0:
        return mp.exp(e) * bent(width, tilt, at, -e) - mp.expm1(e)
    x = mpf(e) - at
    return two_normals(width, e) * mp.exp(tilt * x / (1 + abs(x) / (mpf(width) / 2)))


MODELS = [
    (width, tilt, at) for width, at in ((0.05, 0.02), (0.3, 0.5), (2.0, 0.4), (7.0, 0.0)) for tilt in (-0.7, 0.0, 1.3)
]
FLAT = [greedy._Model(width, tilt, at) for width, tilt, at in ((0.05, -0.5, 0.1), (0.3, 0.2, 1.0), (2.0, 0.05, 3.0))]


class Counting(greedy._Model):
    """A model that knows how often it was evaluated."""

    calls: ClassVar[Counter[str]] = Counter()

    def positive(self, e: float) -> tuple[float, float]:
        self.calls["positive"] += 1
        assert self.calls["positive"] < 10_000
        return super().positive(e)


def evaluations(job: Callable[[], Any]) -> tuple[Any, int]:
    Counting.calls.clear()
    result = job()
    return result, Counting.calls["positive"]


@pytest.mark.parametrize(("width", "tilt", "at"), MODELS)
def test_a_model_is_a_tilted_curve_and_its_slope(width: float, tilt: float, at: float) -> None:
    model = greedy._Model(width, tilt, at)
    for e in (-2.5, -0.9, -0.1 * width, 0.25 * width, width, 2.0 * width + 0.01):
        exact = bent(width, tilt, at, e)
        value, slope = model.both(e)
        assert value == pytest.approx(float(exact), rel=1e-11, abs=2e-16)
        assert model.value(e) == value
        assert slope == pytest.approx(float(mp.diff(lambda x: bent(width, tilt, at, x), e)), rel=1e-10, abs=2e-15)
        if e > 0:
            assert model.positive(e) == (value, slope)


def test_the_slope_at_zero_is_that_on_the_right() -> None:
    model = greedy._Model(0.5, 3.0, 0.2)
    right = mp.diff(lambda x: bent(0.5, 3.0, 0.2, x), 0, direction=1)
    assert model.both(0.0)[1] == pytest.approx(float(right), rel=1e-9)


def test_a_curve_far_out_is_zero_and_one() -> None:
    model = greedy._Model(40.0, 0.0, 0.0)
    assert model.positive(600.0)[0] == pytest.approx(float(two_normals(40.0, 600)), rel=1e-12)
    assert model.positive(600.5) == model.positive(1e6) == (0.0, 0.0)
    assert model.both(-600.0)[0] == 1
    assert model.both(-600.0)[1] < 0
    assert model.both(-600.5) == model.both(-1e6) == (1.0, 0.0)


@pytest.mark.parametrize("width", [0.01, 0.3, 2.0, 9.0])
def test_the_price_is_the_curve(width: float) -> None:
    for e in (-3.0, -0.1, 0.0, 0.4, 2.0 * width):
        assert greedy._price(width, e) == pytest.approx(float(two_normals(width, e)), rel=1e-11, abs=2e-16)


@pytest.mark.parametrize("model", FLAT)
@pytest.mark.parametrize("e", [-1.2, -0.3, -0.01, 0.0, 0.02, 0.4, 1.5])
def test_the_loss_at_a_value_is_found_from_everywhere(model: greedy._Model, e: float) -> None:
    target = model.value(e)
    if not 1e-200 < target < 1 - 1e-9:
        return
    counting = Counting(*model)
    for start, most in ((e + 0.01 * model.width, 4), (0.0, 14), (0.1, 14), (-1.0, 16), (2.0, 30), (500.0, 40)):
        found, calls = evaluations(lambda start=start: counting.loss_at(target, start))
        assert found == pytest.approx(e, abs=1e-9 * model.width + 1e-14 / -model.both(e)[1])
        assert calls <= most


def test_a_start_on_the_wrong_side_of_a_hill_is_left() -> None:
    model = greedy._Model(0.3, -12.0, 0.2)
    assert model.both(-0.02)[1] > 0
    target = model.value(0.4)
    assert model.loss_at(target, -0.02) == pytest.approx(0.4, abs=1e-9)


def test_steps_of_the_loss_near_zero_are_short() -> None:
    """In units of e: a far value is not jumped to where there is none."""
    model = Counting(0.01, 0.0, 0.0)
    found, calls = evaluations(lambda: model.loss_at(1e-100, 0.0))
    assert float(mp.log(bent(0.01, 0, 0, found) / mpf("1e-100"))) == pytest.approx(0, abs=1e-9)
    assert calls <= 30


# Models from values and slopes ----------------------------------------------------------------------------------------


def calls_of(monkeypatch: pytest.MonkeyPatch, name: str) -> Counter[str]:
    """How often a function of the search is called from now on."""
    calls, function = Counter[str](), getattr(greedy, name)

    def counted(*arguments: Any) -> Any:
        calls[name] += 1
        return function(*arguments)

    monkeypatch.setattr(greedy, name, counted)
    return calls


@pytest.mark.parametrize(("start", "most"), [(1e-4, 51), (0.1, 31), (1.0, 23), (90.0, 43)])
def test_models_are_found_from_any_start(monkeypatch: pytest.MonkeyPatch, start: float, most: int) -> None:
    known = [
        (width, tilt, e)
        for width, e in ((0.05, 0.1), (0.05, -0.02), (0.3, 0.5), (0.3, 1.5), (2.0, -0.4), (4.0, 3.0), (0.2, 0.0))
        for tilt in (-1.5, 0.0, 1.5)
    ]
    both = np.array([greedy._Model(width, tilt, abs(e)).positive(abs(e)) for width, tilt, e in known])
    e = np.array([e for _, _, e in known])
    calls = calls_of(monkeypatch, "ndtr")
    widths, tilts, places = greedy._models(e, both[:, 0], both[:, 1], np.full(len(e), start))
    assert calls["ndtr"] <= most
    assert places == pytest.approx(abs(e))
    assert widths == pytest.approx(np.array([width for width, _, _ in known]), rel=1e-11)
    assert tilts == pytest.approx(np.array([tilt for _, tilt, _ in known]), rel=1e-9, abs=1e-9)


def test_models_of_values_that_no_float_tells_apart() -> None:
    e, start = np.full(4, 0.5), np.array([0.014, 0.1, 0.014, 0.014])
    values = np.array([0.0, 1.0, 9e-281, 2e-280])
    slopes = np.array([-1.0, -0.3, -1e-279, -1e-279])
    widths, tilts, _ = greedy._models(e, values, slopes, start)
    for width, value in zip(widths[[0, 2, 3]], (1e-290, 9e-281, 2e-280), strict=True):
        assert float(mp.log(two_normals(width, 0.5) / mpf(value))) == pytest.approx(0, abs=1e-9)
    assert float(1 - two_normals(widths[1], 0.5)) == pytest.approx(1e-12, rel=1e-3)
    assert tilts[0] == 0
    assert tilts[1] == pytest.approx(-0.3, abs=1e-9)
    assert tilts[2] == 0
    assert tilts[3] == 20 / widths[3]


def test_a_tilt_has_its_bounds() -> None:
    e, values = np.array([0.5, 0.5, 0.5]), np.array([0.1, 0.1, np.nan])
    widths, tilts, _ = greedy._models(e, values, np.array([-1e3, 1e3, 1.0]), np.full(3, 0.5))
    assert list(tilts) == [-20 / widths[0], 20 / widths[1], 0.0]


def test_the_start_of_models_is_not_changed() -> None:
    start = np.full(1, 0.3)
    greedy._models(np.array([0.5]), np.array([0.1]), np.array([-0.2]), start)
    assert start[0] == 0.3


# One level ------------------------------------------------------------------------------------------------------------


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The last number at which a condition holds that holds at low and not at high."""
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def allowed_gain(u: float, epsilon: float, delta: float, model: greedy._Model) -> float:
    """The largest u' that (b) allows, as it stands in ``refimpl.plan``."""

    def holds(after: float) -> bool:
        e = epsilon + math.log1p(-u) - math.log1p(-after)
        return after - math.exp(epsilon) * u + (1 - after) * model.value(e) <= delta

    return bisected(holds, math.exp(epsilon) * u, 1 - 1e-16)


@pytest.mark.parametrize("model", FLAT)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.3, 1e-6), (3.0, 0.2)])
def test_a_gain_is_the_largest_allowed(model: greedy._Model, epsilon: float, delta: float) -> None:
    growth, some = math.exp(epsilon), 0
    for u in (0.0, 1e-9, 1e-3, 0.1, 0.3, 0.5, 0.7):
        if growth * u + delta >= 1 or model.value(epsilon) > 0.9 * delta:
            continue
        expected = allowed_gain(u, epsilon, delta, model)
        counting = Counting(*model)
        found, calls = evaluations(lambda u=u, m=counting: greedy._gain_step(u, growth, epsilon, delta, m))
        assert found - growth * u == pytest.approx(expected - growth * u, rel=1e-7, abs=1e-15)
        assert calls <= 6
        some += 1
    assert some or model.value(epsilon) > 0.9 * delta


def test_all_is_allowed_where_nothing_can_be_told() -> None:
    model = FLAT[1]
    assert greedy._gain_step(0.5, 2.0, math.log(2), 0.125, model) == 1
    assert greedy._gain_step(0.25, 2.0, math.log(2), 0.5, model) == 1
    assert greedy._gain_step(0.25, 2.0, math.log(2), 0.49, model) < 1


def test_a_gain_of_an_expensive_release_is_below_the_growth() -> None:
    """Where (b) allows less than e^eps u, it follows from (a)."""
    dear = greedy._Model(2.0, 0.0, 1.0)
    assert greedy._gain_step(0.1, math.e, 1.0, 1e-6, dear) <= 0.1 * math.e


@pytest.mark.parametrize("found", [0.3, 0.45])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_several_steps_are_one_after_the_other(found: float, stride: int) -> None:
    u, epsilon = 0.1, 1.25
    expected, growth = mpf(u), mp.exp(epsilon)
    for _ in range(stride):
        expected = growth * expected + max(mpf(found) - growth * u, 0)
    exact = mpf(greedy._several(found, u, math.exp(epsilon), epsilon, stride))
    assert float(exact / expected - 1) == pytest.approx(-1e-15, abs=6e-16)


def test_one_step_is_a_little_below_what_is_allowed() -> None:
    """For a large epsilon too, where e^eps u may be less exact than u'."""
    for u, epsilon in ((1e-9, 8.0), (1e-3, 0.01), (0.2, 0.7)):
        growth = math.exp(epsilon)
        found = growth * u * (1 + 1e-3)
        assert found * (1 - 2e-15) < greedy._several(found, u, growth, epsilon, 1) < found


def test_the_logarithm_of_two_probabilities_is_exact() -> None:
    for u, after in ((1e-12, 3e-12), (0.2, 0.3), (0.45, 0.51)):
        exact = mp.log((1 - mpf(u)) / (1 - mpf(after)))
        assert greedy._logs(1 - u, u, 1 - after, after) == pytest.approx(float(exact), rel=2e-15)
    for here, after in ((0.49, 0.3), (1e-9, 1e-12)):
        assert greedy._logs(here, 1 - here, after, 1 - after) == pytest.approx(math.log(here / after), rel=2e-15)


def test_below_one_half_the_gain_may_be_all_that_counts() -> None:
    epsilon, growth, cheap, dear = 1.0, math.e, greedy._Model(0.1, 0.0, 1.0), greedy._Model(1.5, 0.0, 1.0)
    budget = epsilon, growth, 0.01
    for u in (0.0, 0.05, 0.49):
        step = greedy._gain_step(u, growth, epsilon, 0.01, cheap)
        for stride in (1, 3):
            after = greedy._several(step, u, growth, epsilon, stride)
            expected = after if step < 1 and (stride == 1 or after < 0.6) else None
            assert greedy._gain_only(u, 1 - u, budget, (cheap, cheap), stride) == expected
    assert greedy._gain_only(0.05, 0.95, budget, (dear, cheap), 1) is None, "(a) allows less"
    assert greedy._gain_only(0.5, 0.5, (0.1, math.exp(0.1), 0.01), (cheap, cheap), 1) is None
    tiny = greedy._Model(1e-3, 0.0, 0.0)
    assert greedy._gain_only(0.49, 0.51, (0.01, math.exp(0.01), 0.01), (tiny, tiny), 1) is not None
    assert greedy._gain_only(0.4, 0.6, (1.0, math.e, 0.01), (cheap, cheap), 1) is None, "e^eps u is beyond 1"


def test_a_gain_only_is_refused_where_it_meets_the_loss() -> None:
    """The condition (a) at the p' that (b) allows, with a curve for (a) that is just too large, or just not."""
    epsilon, growth, delta, u = 0.5, math.exp(0.5), 0.01, 0.1
    for_b = greedy._Model(0.1, 0.0, 0.5)
    after = greedy._gain_step(u, growth, epsilon, delta, for_b)
    e = epsilon - (math.log1p(-u) - math.log1p(-after))
    width = bisected(lambda w: (1 - u) * greedy._Model(w, 0.0, e).value(e) <= delta, 0.01, 3.0)
    for factor, there in ((0.999, True), (1.001, False)):
        for_a = greedy._Model(width * factor, 0.0, e)
        found = greedy._gain_only(u, 1 - u, (epsilon, growth, delta), (for_a, for_b), 1)
        assert (found is not None) == there


# The walk -------------------------------------------------------------------------------------------------------------


def slow_walk(
    epsilon: float, delta: float, models: Sequence[greedy._Model], count: int
) -> tuple[list[float], list[float], list[float]]:
    """U, p and log(p/p') of the greedy law by bisection of (a) and (b) as they stand in ``refimpl.plan``."""
    us, ps, drops = [0.0], [1.0], []
    for for_a, for_b in zip(models[:count], models[count:], strict=True):
        u, p = us[-1], ps[-1]
        if p <= delta:
            break

        def holds(drop: float, u: float = u, p: float = p, a: Any = for_a, b: Any = for_b) -> bool:
            gained = -p * math.expm1(-drop) - math.expm1(epsilon) * u
            loss = p * a.value(epsilon - drop)
            return loss <= delta and (gained <= 0 or gained + p * math.exp(-drop) * b.value(epsilon + drop) <= delta)

        drops.append(bisected(holds, 0.0, 40.0))
        us.append(u - p * math.expm1(-drops[-1]))
        ps.append(p * math.exp(-drops[-1]))
    return us, ps, drops


def some_models(widths: tuple[float, float], count: int, epsilon: float) -> list[greedy._Model]:
    """Curves that rise slowly with the score."""
    each = [widths[0] + (widths[1] - widths[0]) * i / count for i in range(count)]
    return [greedy._Model(width, tilt, epsilon * at) for tilt, at in ((0.1, 0.4), (-0.1, 1.5)) for width in each]


WALKS = [
    (1.0, 1e-2, (0.2, 0.3), 14),
    (1.0, 1e-2, (0.3, 0.36), 14),
    (1.0, 1e-2, (0.2, 0.3), 9),
    (0.5, 1e-6, (0.05, 0.09), 60),
    (4.0, 1e-8, (0.3, 0.5), 14),
    (3.0, 0.1, (0.8, 1.6), 6),
    (0.3, 0.2, (0.2, 0.4), 8),
    (1.0, 0.3, (0.5, 0.9), 5),
    (0.05, 0.1, (0.03, 0.031), 12),  # towards the end (b) allows all
    (0.05, 0.19, (0.03, 0.031), 8),
]


@pytest.mark.parametrize(("epsilon", "delta", "widths", "count"), WALKS)
def test_a_walk_takes_the_least_probability_at_every_level(
    epsilon: float, delta: float, widths: tuple[float, float], count: int
) -> None:
    models = some_models(widths, count, epsilon)
    walk = greedy._walk(epsilon, delta, models, [1] * count)
    us, ps, drops = slow_walk(epsilon, delta, models, count)
    assert len(walk.u) == len(walk.p) == len(us)
    assert walk.u == pytest.approx(us, rel=1e-8)
    assert walk.p == pytest.approx(ps, rel=1e-8)
    used = len(drops)
    expected = np.full(2 * count, epsilon)
    expected[:used] -= drops
    expected[count : count + used] += drops
    assert walk.points == pytest.approx(expected, abs=1e-8 * epsilon)
    assert walk.gap == pytest.approx(missing_levels(ps, epsilon, delta, [1] * count), rel=1e-6)


@pytest.mark.parametrize(("dear_from", "width"), [(7, 0.4), (8, 0.5)])
def test_a_walk_takes_the_gain_that_is_allowed_above_one_half(dear_from: int, width: float) -> None:
    """Where e^epsilon u is below what (a) allows, and (b) is between the two."""
    cheap, dear = greedy._Model(0.03, 0.0, 0.1), greedy._Model(width, 0.0, 0.2)
    models = [cheap] * 12 + [cheap] * dear_from + [dear] * (12 - dear_from)
    walk = greedy._walk(0.1, 0.05, models, [1] * 12)
    us, ps, drops = slow_walk(0.1, 0.05, models, 12)
    free = greedy._walk(0.1, 0.05, [cheap] * 24, [1] * 12)
    assert walk.u[: dear_from + 1] == free.u[: dear_from + 1]
    assert walk.u[dear_from + 1] < 0.999 * free.u[dear_from + 1]
    assert walk.u == pytest.approx(us, rel=1e-8)
    assert walk.p == pytest.approx(ps, rel=1e-8)
    assert walk.points[12:] == pytest.approx([0.1 + drop for drop in drops], abs=1e-9)


def missing_levels(ps: Sequence[float], epsilon: float, delta: float, sizes: Sequence[int]) -> float:
    """How many levels more p needs to fall to delta at a rate of epsilon p + delta; or how many it does not need."""
    if ps[-1] > delta:
        return float(mp.quad(lambda p: 1 / (epsilon * p + delta), [delta, ps[-1]]))
    used = len(ps) - 1
    spared = sum(sizes[used:])
    last = mp.log(mpf(ps[-1]) / delta) / mp.log(mpf(ps[-1]) / ps[-2]) * sizes[used - 1]
    return float(-spared - last)


@pytest.mark.parametrize(
    ("ps", "sizes"),
    [
        ([1.0, 0.9, 0.3], [1, 1]),
        ([1.0, 0.9, 0.3], [3, 2]),
        ([1.0, 0.5, 0.01], [1, 1]),
        ([1.0, 0.5, 0.004], [1, 1]),
        ([1.0, 0.5, 0.004], [4, 3]),
        ([1.0, 0.5, 0.02, 1e-9], [5, 3, 4, 4, 2]),
        ([1.0, 0.0101], [2]),
    ],
)
def test_missing_levels_are_counted_in_fractions(ps: list[float], sizes: list[int]) -> None:
    passed = sum(sizes[len(ps) - 1 :])
    found = greedy._missing(ps, 0.7, 0.01, sizes, passed)
    assert found == pytest.approx(missing_levels(ps, 0.7, 0.01, sizes), rel=1e-12, abs=1e-15)


def test_a_law_that_ends_at_once_misses_nothing() -> None:
    assert greedy._missing([1.0], 0.7, 1.5, [1, 2], 3) == -5


def test_a_walk_comes_to_a_halt_where_the_release_is_too_dear() -> None:
    """At p = 1 the release alone costs more than delta."""
    models = [greedy._Model(2.0, 0.0, 1.0)] * 8
    walk = greedy._walk(1.0, 1e-2, models, [1] * 4)
    assert walk.gap == math.inf
    assert walk.u == [0.0]
    assert list(walk.points) == [1.0] * 8
    halfway = [greedy._Model(0.2, 0.0, 1.0)] * 2 + [greedy._Model(2.0, 0.0, 1.0)] * 2
    walk = greedy._walk(1.0, 1e-2, halfway * 2, [1] * 4)
    assert walk.gap == math.inf
    assert len(walk.u) == len(walk.p) == 3


# How far a walk in strides is off: its gap, and its u. Less is welcome.
STRIDES = [
    (0.5, 1e-6, (0.05, 0.09), 60, {2: (0.0854, 0.00314), 3: (0.2372, 0.000621), 5: (0.6198, 0.00315)}),
    (0.1, 1e-4, (0.02, 0.025), 180, {2: (0.3169, 0.00384), 3: (0.5853, 0.00384), 5: (1.5734, 0.00384)}),
]


@pytest.mark.parametrize("stride", [2, 3, 5])
@pytest.mark.parametrize(("epsilon", "delta", "widths", "count", "record"), STRIDES)
def test_strides_are_nearly_as_single_steps(
    epsilon: float,
    delta: float,
    widths: tuple[float, float],
    count: int,
    record: dict[int, tuple[float, float]],
    stride: int,
) -> None:
    models = some_models(widths, count, epsilon)
    exact = greedy._walk(epsilon, delta, models, [1] * count)
    starts = range(0, count, stride)
    few = [models[i] for i in starts] + [models[count + i] for i in starts]
    walk = greedy._walk(epsilon, delta, few, [min(stride, count - i) for i in starts])
    gap, error = record[stride]
    assert abs(walk.gap - exact.gap) <= 1.01 * gap
    for i, u in enumerate(walk.u[1:], start=1):
        if i * stride < len(exact.u):
            assert abs(math.log(u / exact.u[i * stride])) <= 1.01 * error


# The bounds -----------------------------------------------------------------------------------------------------------

SHAPES = [
    (40, Fraction(1), 5, 20),
    (40, Fraction(2), 2, 1),
    (40, Fraction("1.01"), 2, 30),
    (60, Fraction(1), 10, 17),
    (97, Fraction("3.7"), 5, 7),
    (600, Fraction("1.5"), 20, 200),
    (600, Fraction(1), 50, 350),
    (600, Fraction(10), 12, 7),
    (5000, Fraction(4), 200, 600),
]


def test_the_shapes_are_admissible_and_the_largest_radius_is_at_every_place() -> None:
    assert [gate_failure(*shape) for shape in SHAPES] == [None] * len(SHAPES)
    places = {float(np.argmax(radii(*shape, r))) / 40_000 for shape in SHAPES for r in (1, shape[2] - 1)}
    assert 0 in places
    assert max(places) > 0.4


def radii(n: int, lambda_0: Fraction, k: int, window: int, r: int) -> Any:
    """The weighted radii at real levels from the first of the window to the last."""
    j = np.linspace(0, window - 1, 40_001)
    left = float(n / lambda_0) - k - j * (1 + r / window)
    return (1 - j / window) * np.sqrt(n / left - 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_bounds_in_floats_are_maxima_over_real_levels(shape: tuple[int, Fraction, int, int]) -> None:
    n, lambda_0, k, window = shape
    h = float(n / lambda_0)
    scores = sorted({0, 1, 2, k // 2, k - 2, k - 1} & set(range(k)))
    moves = greedy._moves(n, h, k, window, np.array(scores, dtype=float))
    for z, move in zip(scores, moves, strict=True):
        r = min(z + 1, k - 1)
        change = greedy._changes(h, k, window, np.array(float(r)), np.array(float(z)))
        assert float(change) == pytest.approx(float(covariance_change(n, lambda_0, k, window, r, z)), rel=1e-12)
        inner = radii(n, lambda_0, k, window, r).max()
        largest = greedy._largest_radius(n, h, k, window, np.array(float(r)))
        assert float(largest) == pytest.approx(inner, rel=1e-9)
        last = math.sqrt(n / (h - (k + window - 1) - (1 - 1 / window) * r) - 1) / window
        ways = []
        for others, outer in [(z, math.sqrt(n / (h - z) - 1)), *([(z - 1, inner)] if z else [])]:
            v = (1 - float(covariance_change(n, lambda_0, k, window, r, others))) ** -0.5
            ways.append((max(outer * v + inner, outer + inner * v) + others * last * v) / (n - 1 - others))
        assert move == pytest.approx(max(ways), rel=1e-9)


def test_the_ideal_width_spends_everything_on_the_release() -> None:
    for epsilon, delta in ((1.0, 1e-2), (0.01, 1e-12), (8.0, 1e-6), (256.0, 0.9), (0.5, 0.24)):
        width = greedy._ideal_width(epsilon, delta)
        assert float(two_normals(width, epsilon)) == pytest.approx(delta, rel=1e-9)


# One pair (k, W) ------------------------------------------------------------------------------------------------------

TASKS = ("mean", "covariance", "gaussian")


def levels_of(task: str, *, k: int = 10, window: int = 17, stride: int = 1, n: float = 60.0) -> greedy._Levels:
    return greedy._Levels(task, n, (3.0, 1e-3, 1.0), k, window, stride)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("k", "stride", "sizes"), [(2, 1, [1]), (10, 4, [4, 4, 1]), (9, 4, [4, 4]), (4, 7, [3])])
def test_strides_are_cut_at_the_end(task: str, k: int, stride: int, sizes: list[int]) -> None:
    levels, single = levels_of(task, k=k, stride=stride), levels_of(task, k=k)
    assert levels.sizes == sizes
    assert single.sizes == [1] * (k - 1)
    assert list(levels.change) == [single.change[z] for z in range(0, k - 1, stride)]
    assert list(levels.move) == [single.move[z] for z in range(0, k - 1, stride)]
    for z in range(k - 1):
        change = covariance_change(60, Fraction(1), k, 17, z + 1, z)
        assert single.change[z] == pytest.approx(float(change), rel=1e-12)
    assert np.all(single.move > 0) if task != "covariance" else not np.any(single.move)
    assert list(levels.points) == [3.0] * (2 * len(sizes))
    assert len(levels.widths) == 2 * len(sizes)
    assert levels.steepness == 0
    assert (levels.k, levels.window, levels.task) == (k, 17, task)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("x", [-1.0, 0.0, 0.3, 0.9, 1.7])
def test_the_noise_is_in_units_of_the_least_conceivable(task: str, x: float) -> None:
    levels = levels_of(task)
    c, samples = levels.noise(x)
    move, change = levels.move[0] / c, math.sqrt(samples) * levels.change[0]
    ideal = greedy._ideal_width(3.0, 1e-3)
    if task == "mean":
        assert samples == 0
        assert move == pytest.approx(ideal * math.exp(-x))
    elif task == "covariance":
        assert c == 1
        assert change == pytest.approx(ideal * math.exp(-x))
    else:
        assert move == pytest.approx(ideal / math.sqrt(2) * math.exp(-x))
        assert change == pytest.approx(move)
    assert levels.score(x) == pytest.approx(math.log(c) - math.log(max(samples, 1)) / 2)
    assert levels.x_of(levels.score(x)) == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("task", ["covariance", "gaussian"])
def test_there_is_always_a_draw(task: str) -> None:
    levels = levels_of(task)
    assert levels.noise(19.0)[1] == 1
    x = levels.log_most if task == "covariance" else levels.log_balance - levels.log_c
    assert levels.noise(x)[1] == pytest.approx(1)
    assert levels.noise(x - 0.1)[1] == pytest.approx(math.exp(0.2))
    assert levels.most() == (x if task == "covariance" else 20)
    for beyond in (0.0, 0.25, 2.0) if task == "gaussian" else (0.0,):
        assert levels.x_of(levels.score(x + beyond)) == pytest.approx(x + beyond, abs=1e-12)


def test_the_noise_of_a_mean_has_an_end() -> None:
    assert levels_of("mean").most() == 20


@pytest.mark.parametrize("task", TASKS)
def test_the_curve_is_asked_where_the_walk_was(task: str) -> None:
    levels = levels_of(task, stride=2)
    levels.points = np.linspace(-2.0, 3.0, len(levels.points))
    e, moves, changes = levels.used((0.5, 7.0))
    assert list(e) == list(abs(levels.points))
    assert list(moves) == [*(levels.move / 0.5), *(levels.move / 0.5)]
    assert list(changes) == [*levels.change, *levels.change]


def long_levels() -> tuple[greedy._Levels, tuple[float, float], tuple[curves.Case, ...]]:
    """A long law for both, with points at which the largest case changes on the way."""
    levels = greedy._Levels("gaussian", 2000.0, (1.0, 1e-6, 10.0), 44, 66, 1)
    levels.points = np.linspace(0.3, -0.15, len(levels.points))
    return levels, levels.noise(0.8), cases_of(2, mean=True, draws=True)


class Evaluations:
    """Counts points times cases of the curves that a search evaluates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self.total = 0
        for name in ("curve", "hockey_sticks"):
            monkeypatch.setattr(greedy, name, self._counted(getattr(greedy, name)))

    def _counted(self, function: Any) -> Any:
        def counted(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[curves.Case]) -> Any:
            self.total += len(e) * len(cases)
            return function(e, move, change, samples, cases)

        return counted


def test_a_curve_of_many_cases_is_their_largest_and_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, noise, cases = long_levels()
    values, slopes = curves.hockey_sticks(*levels.used(noise), noise[1], cases)
    best, rows = values.argmax(axis=1), np.arange(len(values))
    assert len(set(best)) > 1
    everything = values.size
    counted = Evaluations(monkeypatch)
    found, found_slopes = levels.curve(noise, cases)
    assert counted.total < 0.78 * everything
    assert found == pytest.approx(values.max(axis=1), rel=1e-12)
    assert found_slopes == pytest.approx(slopes[rows, best], rel=1e-12)
    assert levels.largest is None
    full, full_slopes = levels.full_curve(noise, cases)
    assert full == pytest.approx(values.max(axis=1), rel=1e-12)
    assert full_slopes == pytest.approx(slopes[rows, best], rel=1e-12)
    assert levels.largest is not None
    assert list(levels.largest) == list(best)
    counted.total = 0
    again, again_slopes = levels.curve(noise, cases)
    assert counted.total == len(values), "the largest case of each is known now"
    assert again == pytest.approx(full, rel=1e-12)
    assert again_slopes == pytest.approx(full_slopes, rel=1e-12)
    levels.largest[:] = 0
    lower, _ = levels.curve(noise, cases)
    assert lower == pytest.approx(values[:, 0], rel=1e-12)


@pytest.mark.parametrize(("task", "d"), [("mean", 2), ("mean", 1), ("covariance", 2), ("covariance", 1)])
def test_a_curve_of_few_cases_is_taken_as_it_is(task: str, d: int) -> None:
    levels, cases = levels_of(task), cases_of(d, mean=task == "mean", draws=task == "covariance")
    levels.points = np.linspace(-1.0, 3.0, len(levels.points))
    noise = levels.noise(0.5)
    expected, slopes = curves.curve(*levels.used(noise), noise[1], cases)
    for part in (levels.curve, levels.full_curve):
        values, found_slopes = part(noise, cases)
        assert values == pytest.approx(expected, rel=1e-12)
        assert found_slopes == pytest.approx(slopes, rel=1e-12)
    known = levels.largest
    assert (known is None) == (task == "mean")


def settled_walk(task: str = "mean", x: float = 1.2) -> tuple[greedy._Levels, greedy._Walk, tuple[float, float]]:
    levels = levels_of(task)
    noise = levels.noise(x)
    cases = cases_of(2, mean=task != "covariance", draws=task != "mean")
    walk = levels.walk(noise, cases, 1e-9)
    assert math.isfinite(walk.gap)
    return levels, walk, noise


def left_sides(walk: greedy._Walk, epsilon: float, f: Callable[[int, float], float]) -> list[tuple[float, float]]:
    """Of (a) and (b) at all levels but the last, where f(z, e) is the curve at any e."""
    sides = []
    for z, ((u, after), (p, p_after)) in enumerate(zip(pairwise(walk.u), pairwise(walk.p), strict=True)):
        drop = math.log(p / p_after)
        gain = max(after - math.exp(epsilon) * u, 0) + p_after * f(z, epsilon + drop)
        sides.append((p * f(z, epsilon - drop), gain))
    return sides


@pytest.mark.parametrize(("task", "x"), [("mean", 1.2), ("mean", 2.5), ("covariance", 0.6), ("gaussian", 1.0)])
def test_a_settled_walk_meets_the_conditions_with_the_true_curve(task: str, x: float) -> None:
    levels, walk, (c, samples) = settled_walk(task, x)
    cases = cases_of(2, mean=task != "covariance", draws=task != "mean")

    def f(z: int, e: float) -> float:
        return float(curves.hockey_stick(e, levels.move[z] / c, levels.change[z], samples, cases)[0])

    for loss, gain in left_sides(walk, 3.0, f):
        assert max(loss, gain) == pytest.approx(1e-3, rel=1e-6)
    assert list(levels.points) == list(walk.points)


@pytest.mark.parametrize("kind", ["loss", "gain", "below"])
def test_a_walk_holds_up_to_a_third_of_the_reserve(kind: str) -> None:
    """The values are made so that one condition is just met, or just not."""
    epsilon, delta = 0.7, 0.01
    levels = greedy._Levels("mean", 60.0, (epsilon, delta, 1.0), 5, 9, 1)
    u = [0.0, 0.05, 0.3, 0.6, 0.9]
    p = [1 - v for v in u]
    walk = greedy._Walk(u, p, -1.0, np.zeros(8))
    drops = np.array([math.log(a / b) for a, b in pairwise(p)])
    levels.points = np.concatenate([epsilon - drops, epsilon + drops])
    gains = [max(b - math.exp(epsilon) * a, 0) for a, b in pairwise(u)]
    assert levels.points[3] < 0 < levels.points[2]
    for factor, expected in ((1 - 1e-9, True), (1 + 0.3e-9, True), (1 + 0.36e-9, False), (1.01, False)):
        for z in (0, 1, 2) if kind == "loss" else (3,) if kind == "below" else (2, 3):
            values = np.zeros(8)
            levels.points[3] = 0.1 if kind == "gain" or z < 3 else epsilon - drops[3]
            levels.delta = delta
            if kind == "gain":
                levels.delta = gains[z] + 0.01
                big = [g - levels.delta for g in gains]
                if max(big) > 0:
                    continue
                values[4 + z] = (levels.delta * factor - gains[z]) / p[z + 1]
            elif kind == "loss":
                levels.delta = max(gains) + 0.1
                values[z] = levels.delta * factor / p[z]
            else:
                levels.delta = max(gains) + 1e-3
                e = levels.points[3]
                wanted = levels.delta * factor / p[3]
                values[3] = (wanted + math.expm1(e)) / math.exp(e)
            assert levels.holds(walk, values) is expected


def test_a_walk_that_ended_early_is_looked_at_as_far_as_it_went() -> None:
    levels = greedy._Levels("mean", 60.0, (0.7, 0.5, 1.0), 5, 9, 1)
    walk = greedy._Walk([0.0, 0.4, 0.9], [1.0, 0.6, 0.1], -1.0, np.zeros(8))
    levels.points = np.full(8, 0.7)
    values = np.array([0.1, 0.1, 9.0, 9.0, 0.1, 0.1, 9.0, 9.0])
    assert levels.holds(walk, values)
    for at in (0, 1, 4, 5):
        worse = values.copy()
        worse[at] = 9.0
        assert not levels.holds(walk, worse)


def rounds_of(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many walks with models there are from now on."""
    return calls_of(monkeypatch, "_walk")


@pytest.mark.parametrize(
    ("task", "x", "exactness", "most"),
    [("mean", 1.2, 0.1, 3), ("mean", 1.2, 1e-3, 4), ("mean", 1.2, 1e-9, 7), ("gaussian", 1.0, 1e-6, 7)],
)
def test_a_walk_settles_in_few_rounds(
    monkeypatch: pytest.MonkeyPatch, task: str, x: float, exactness: float, most: int
) -> None:
    levels, rounds = levels_of(task), rounds_of(monkeypatch)
    cases = cases_of(2, mean=True, draws=task != "mean")
    walk = levels.walk(levels.noise(x), cases, exactness)
    assert rounds["_walk"] <= most
    settled = levels.walk(levels.noise(x), cases, 1e-12)
    assert abs(walk.gap - settled.gap) <= exactness
    assert np.abs(walk.points - settled.points).max() <= 3 * exactness
    rounds.clear()
    levels.walk(levels.noise(x), cases, exactness)
    assert rounds["_walk"] <= 3, "from where it is settled"


def test_a_walk_without_end_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, rounds = levels_of("mean"), rounds_of(monkeypatch)
    assert levels.walk(levels.noise(0.3), (curves.ALONG,), 1e-3).gap == math.inf
    assert rounds["_walk"] <= 4


class Recovering(greedy._Levels):
    """A walk whose first rounds come to no end."""

    def __init__(self, gaps: list[float]) -> None:
        super().__init__("mean", 60.0, (3.0, 1e-3, 1.0), 10, 17, 1)
        self.gaps = gaps

    def curve(self, noise: Any, cases: Any) -> Any:  # noqa: ARG002 - a signature of the search's
        return np.zeros_like(self.points), np.zeros_like(self.points)

    full_curve = curve

    def round(self, values: Any, slopes: Any) -> greedy._Walk:  # noqa: ARG002 - likewise
        gap = self.gaps.pop(0) if len(self.gaps) > 1 else self.gaps[0]
        return greedy._Walk([0.0, 1.0], [1.0, 0.0], gap, self.points)

    def holds(self, walk: greedy._Walk, values: Any) -> bool:  # noqa: ARG002 - likewise
        return walk.gap != -1.0


def test_a_walk_is_not_given_up_at_once() -> None:
    never = math.inf
    assert Recovering([never, never, never, -1.0, -2.0]).walk((1.0, 0.0), (), 1e-3).gap == -2.0
    law = Recovering([never, never, never, -1.0, -2.0]).law((1.0, 0.0), ())
    assert law is not None
    assert law.gap == -2.0
    assert Recovering([never, never, never, never, -2.0]).law((1.0, 0.0), ()) is None


@pytest.mark.parametrize(("task", "x"), [("mean", 1.2), ("gaussian", 1.5), ("covariance", 1.2)])
def test_a_law_ends_and_holds(monkeypatch: pytest.MonkeyPatch, task: str, x: float) -> None:
    levels, rounds = levels_of(task), rounds_of(monkeypatch)
    cases = cases_of(2, mean=task != "covariance", draws=task != "mean")
    c, samples = levels.noise(x)
    walk = levels.law((c, samples), cases)
    assert rounds["_walk"] <= 10
    assert walk is not None
    assert walk.gap <= 0
    assert walk.p[-1] <= 1e-3

    def f(z: int, e: float) -> float:
        return float(curves.hockey_stick(e, levels.move[z] / c, levels.change[z], samples, cases)[0])

    sides = left_sides(walk, 3.0, f)
    assert max(map(max, sides)) <= 1e-3 * (1 + RESERVE)
    assert min(map(max, sides)) >= 1e-3 * (1 - 1e-5)


def test_there_is_no_law_with_too_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, rounds = levels_of("mean"), rounds_of(monkeypatch)
    cases = cases_of(2, mean=True, draws=False)
    assert levels.law(levels.noise(0.3), cases) is None
    assert rounds["_walk"] <= 4, "without an end it is given up soon"
    rounds.clear()
    least = levels_of("mean").least(cases, 0.2, 1e-9, 0.1)
    assert least is not None
    levels = levels_of("mean")
    assert levels.law(levels.noise(least - 1e-3), cases) is None
    assert levels_of("mean").law(levels.noise(least + 1e-6), cases) is not None
    assert rounds["_walk"] <= 84


class Turning(greedy._Levels):
    """A law whose points go to and fro between two ways, unless half of the way is taken."""

    def __init__(self, contraction: float) -> None:
        super().__init__("mean", 60.0, (3.0, 1e-3, 1.0), 10, 17, 1)
        self.contraction, self.rounds, self.full = contraction, 0, 0
        self.points = self.points + 0.1

    def curve(self, noise: Any, cases: Any) -> Any:  # noqa: ARG002 - a signature of the search's
        return self.points - 3.0, np.zeros_like(self.points)

    def full_curve(self, noise: Any, cases: Any) -> Any:
        self.full += 1
        return self.curve(noise, cases)

    def round(self, values: Any, slopes: Any) -> greedy._Walk:  # noqa: ARG002 - likewise
        self.rounds += 1
        return greedy._Walk([0.0, 1.0], [1.0, 0.0], -1.0, 3.0 - self.contraction * values)

    def holds(self, walk: Any, values: Any) -> bool:  # noqa: ARG002 - likewise
        return bool(np.abs(values).max() < 1e-6)


@pytest.mark.parametrize(("contraction", "most"), [(1.0, 8), (0.9, 14), (1.3, 18), (0.5, 24)])
def test_a_law_that_goes_to_and_fro_is_damped(contraction: float, most: int) -> None:
    levels = Turning(contraction)
    assert levels.law((1.0, 0.0), ()) is not None
    assert levels.rounds <= most
    assert levels.full == 1


# The least noise of a pair --------------------------------------------------------------------------------------------

FALLING: dict[str, tuple[Callable[[float], float], float]] = {
    "line": (lambda x: 3.0 * (0.71 - x), 0.71),
    "steep": (lambda x: 4000.0 * (0.71 - x), 0.71),
    "bent": (lambda x: math.exp(-2.0 * x) - math.exp(-1.42), 0.71),
    "bent the other way": (lambda x: math.exp(1.42) - math.exp(2.0 * x), 0.71),
    "cubic": (lambda x: (0.71 - x) ** 3, 0.71),
    "infinite on the left": (lambda x: 5.0 * (0.71 - x) if x > 0.69 else math.inf, 0.71),
    "step": (lambda x: 1.0 if x < 0.71 else -7.0, 0.71),
    "from infinity": (lambda x: math.inf if x < 0.71 else -7.0, 0.71),
    "on the left": (lambda x: 2.0 * (-1.3 - x), -1.3),
    "exactly": (lambda x: -math.floor(8 * x) + 4.0, 0.5),
}
# Calls of the function: for three tolerances from one bracket, and twice in a row from five starts. Fewer are welcome.
CALLS = {
    "line": ((3, 4, 6), (18, 17, 9, 10, 22)),
    "steep": ((3, 4, 6), (18, 17, 9, 10, 22)),
    "bent": ((9, 16, 29), (21, 31, 9, 10, 45)),
    "bent the other way": ((10, 17, 30), (27, 34, 8, 10, 48)),
    "cubic": ((12, 22, 42), (33, 51, 14, 27, 60)),
    "infinite on the left": ((8, 14, 27), (28, 36, 9, 18, 48)),
    "step": ((11, 22, 43), (36, 42, 24, 21, 52)),
    "from infinity": ((9, 15, 28), (38, 38, 18, 28, 50)),
    "on the left": ((3, 4, 6), (18, 19, 20, 20, 22)),
    "exactly": ((10, 74, 120), (158, 147, 150, 134, 143)),
}


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize(("i", "tolerance"), [(0, 1e-2), (1, 1e-4), (2, 1e-8)])
def test_a_root_is_found_from_above_in_few_steps(name: str, i: int, tolerance: float) -> None:
    function, root = FALLING[name]
    asked: list[float] = []

    def gap(x: float) -> float:
        asked.append(x)
        assert len(asked) < 1000
        return function(x)

    low, high = root - 0.9, root + 1.7
    found = greedy._root(gap, low, high, function(low), function(high), tolerance)
    assert root <= found <= root + tolerance
    assert function(found) <= 0
    assert all(low < x < high for x in asked)
    assert len(asked) <= CALLS[name][0][i]


def test_a_root_that_is_enclosed_already_needs_no_step() -> None:
    assert greedy._root(lambda _: pytest.fail("asked"), 0.5, 0.625, 1.0, -1.0, 0.125) == 0.625


class Known(greedy._Levels):
    """Levels whose gap is a function of the noise."""

    def __init__(self, gap: Callable[[float], float], most: float = 20.0) -> None:
        self.gap, self.end, self.steepness = gap, most, 0.0
        self.asked: list[tuple[float, float]] = []

    def noise(self, x: float) -> tuple[float, float]:
        return x, 0.0

    def most(self) -> float:
        return self.end

    def walk(self, noise: tuple[float, float], cases: Any, exactness: float) -> Any:
        assert cases == "cases"
        assert noise[0] <= self.end
        self.asked.append((noise[0], exactness))
        assert len(self.asked) < 1000
        return SimpleNamespace(gap=self.gap(noise[0]))


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize(("i", "start"), [(0, -0.5), (1, 0.2), (2, 0.7), (3, 0.75), (4, 5.0)])
def test_the_least_noise_is_found_from_every_start(name: str, i: int, start: float) -> None:
    function, root = FALLING[name]
    levels = Known(function)
    for _ in range(2):
        found = levels.least("cases", start, 1e-4, 0.01)
        assert found is not None
        assert root <= found <= root + 1e-4
        assert {exactness for _, exactness in levels.asked} == {30 * 1e-4}
    assert len(levels.asked) <= CALLS[name][1][i]
    if name in {"line", "on the left"}:
        assert levels.steepness == pytest.approx(3.0 if name == "line" else 2.0, rel=1e-6)
    if name == "from infinity":
        assert levels.steepness == 0


@pytest.mark.parametrize(("off", "most"), [(1e-5, 5), (1e-3, 5), (0.03, 5), (-0.03, 5), (-1e-5, 3)])
def test_with_a_known_steepness_the_first_steps_are_newtons(off: float, most: int) -> None:
    levels = Known(lambda x: 40.0 * (0.71 - x) + 3.0 * (0.71 - x) ** 2)
    levels.steepness = 40.0
    found = levels.least("cases", 0.71 + off, 1e-4, 0.02)
    assert found is not None
    assert 0.71 <= found <= 0.71 + 1e-4
    assert len(levels.asked) <= most


def test_there_is_no_least_noise_where_all_of_it_is_too_little() -> None:
    levels = Known(lambda x: 7.0 - x, most=3.0)
    assert levels.least("cases", 0.2, 1e-4, 0.01) is None
    assert levels.asked[-1][0] == 3.0
    assert len(levels.asked) <= 8
    at_the_end = Known(lambda x: 3.0 - x, most=3.0)
    assert at_the_end.least("cases", 9.0, 1e-4, 0.01) == pytest.approx(3.0)


def test_less_noise_than_the_least_conceivable_is_not_looked_for() -> None:
    levels = Known(lambda _: -5.0)
    found = levels.least("cases", 0.2, 1e-4, 0.01)
    assert found is not None
    assert len(levels.asked) <= 9
    assert min(x for x, _ in levels.asked) == found
    assert -70 < found < 0.2


# The search over (k, W) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lambda_0", [1, Fraction(5, 2), 4])
def test_the_largest_window_is_the_gates(lambda_0: Fraction | int) -> None:
    for n, k in ((60, 2), (60, 6), (61, 5), (200, 20)):
        window = greedy._most_window(n, float(lambda_0), k)
        largest = max(w for w in range(1, 300) if gate_failure(n, Fraction(lambda_0), k, w) is None)
        assert largest <= window <= largest + 1


def test_the_cases_of_a_search() -> None:
    for task, mean, draws in (("mean", True, False), ("covariance", False, True), ("gaussian", True, True)):
        for d in (1, 2, 7):
            search = greedy._Search(task, 60, d, (3.0, 1e-3, 1.0))
            assert search.all_cases == cases_of(d, mean=mean, draws=draws)
            assert set(search.one_case) <= {*search.all_cases, curves.ALONG}
            one = 1 if d > 1 else len(search.all_cases)
            assert len(search.one_case) == one
            if d > 1 and task == "gaussian":
                assert search.one_case == search.all_cases[1:2]
            if d > 1 and task == "mean":
                assert search.one_case == (curves.ALONG,)
    new = greedy._Search("mean", 60, 2, (3.0, 1e-3, 1.0))
    assert (new.best, new.start, new.steepness, new.seen) == (None, 0.2, 0, set())


def test_levels_are_there_if_the_gate_is_open() -> None:
    """But for changes above 0.98, and k = 1, which has no law."""
    kinds = Counter[str]()
    for n, lambda_0 in ((40, Fraction(1)), (41, Fraction(2)), (47, Fraction(5, 2))):
        search = greedy._Search("covariance", n, 2, (3.0, 1e-3, float(lambda_0)))
        for k, window in product(range(1, 14), range(25)):
            levels = search.levels(k, window, 3)
            if k == 1 or gate_failure(n, lambda_0, k, window) is not None:
                assert levels is None
                kinds["closed"] += 1
            else:
                change = covariance_change(n, lambda_0, k, window, k - 1, k - 1)
                assert (levels is None) == (change > 0.98)
                kinds["large" if levels is None else "open"] += 1
            if levels is not None:
                assert (levels.k, levels.window, levels.sizes[0]) == (k, window, min(3, k - 1))
    assert min(kinds.values()) > 4


def test_levels_of_a_gate_that_is_nearly_closed() -> None:
    """H - t - (k-1)(1 - 1/W) of nearly 0 is none; a change of nearly 1 has no use."""
    for off, k, window in ((1e-6, 2, 1), (1e-12, 2, 1)):
        search = greedy._Search("covariance", 2.0 + off, 2, (3.0, 1e-3, 1.0))
        assert search.levels(k, window, 1) is None
    for h, there in ((4.05, True), (4.03, False), (3.01, False)):
        search = greedy._Search("covariance", 10 * h, 2, (3.0, 1e-3, 10.0))
        assert (search.levels(2, 1, 1) is not None) == there


class Pair(Known):
    """Levels of a pair (k, W): the least x is the score itself."""

    def __init__(self, score: float) -> None:
        super().__init__(lambda x: 9.0 * (score - x))
        self.tolerances: list[tuple[float, float, float]] = []

    def score(self, x: float) -> float:
        return x - 0.5

    def x_of(self, score: float) -> float:
        return score + 0.5

    def least(self, cases: Any, start: float, tolerance: float, step: float) -> float | None:
        self.tolerances.append((start, tolerance, step))
        self.steepness += 1.0
        return super().least(cases, start, tolerance, step)


class Pairs(greedy._Search):
    """A search among pairs whose scores are known."""

    def __init__(self, scores: dict[tuple[int, int], float]) -> None:
        super().__init__("mean", 60, 2, (3.0, 1e-3, 1.0))
        self.one_case: Any = "cases"
        self.pairs = {pair: Pair(score) for pair, score in scores.items()}
        self.asked: list[tuple[int, int, int]] = []

    def levels(self, k: int, window: int, stride: int) -> Any:
        self.asked.append((k, window, stride))
        return self.pairs.get((k, window))


def test_an_attempt_takes_what_is_better_by_more_than_the_tolerance() -> None:
    search = Pairs({(5, 7): 1.0, (6, 7): 0.995, (7, 7): 0.9, (8, 7): -21.0, (9, 7): 25.0})
    assert not search.attempt(9, 7, 1e-2, 3), "even with all the noise it is too short"
    assert search.best is None
    assert not search.attempt(4, 7, 1e-2, 3), "the gate is closed"
    assert search.attempt(5, 7, 1e-2, 3)
    assert search.asked[-1] == (5, 7, 3)
    assert search.best is not None
    assert search.best[0] == pytest.approx(0.5, abs=1e-2)
    assert search.best[1:] == (5, 7)
    first = search.best
    assert search.start == pytest.approx(1.0, abs=1e-2)
    assert search.steepness == pytest.approx(9.0)
    assert not search.attempt(6, 7, 1e-2, 3), "the gain is below the tolerance"
    assert search.best == first
    assert search.attempt(6, 7, 1e-3, 3)
    assert not search.attempt(6, 7, 1e-3, 3), "it has been looked at"
    count = len(search.asked)
    assert not search.attempt(5, 7, 1e-2, 3)
    assert len(search.asked) == count
    assert search.attempt(7, 7, 1e-3, 3)
    assert search.best[1:] == (7, 7)
    start, tolerance, step = search.pairs[7, 7].tolerances[0]
    assert start <= 0.995
    assert (tolerance, step) == (1e-3, 20 * 1e-3)


def test_an_attempt_asks_once_where_the_pair_is_no_better() -> None:
    search = Pairs({(5, 7): 1.0, (6, 7): 1.2})
    search.attempt(5, 7, 1e-2, 1)
    search.attempt(6, 7, 1e-2, 1)
    assert [exactness for _, exactness in search.pairs[6, 7].asked] == [0.1]
    assert search.pairs[6, 7].asked[0][0] == pytest.approx(0.99, abs=1e-2)
    assert search.pairs[6, 7].tolerances == []


def test_an_attempt_without_a_least_noise_is_none() -> None:
    search = Pairs({(5, 7): 1.0})
    search.pairs[5, 7].least = lambda *_: None
    assert not search.attempt(5, 7, 1e-2, 1)
    assert search.best is None


def test_an_attempt_does_not_go_below_the_least_conceivable() -> None:
    search = Pairs({(5, 7): 1.0, (6, 7): -40.0})
    search.best = -20.499, 4, 7
    assert not search.attempt(6, 7, 1e-2, 1)
    assert search.pairs[6, 7].asked == []
    search.best = -20.47, 4, 7
    assert search.attempt(6, 7, 1e-3, 1)


class Landscape(greedy._Search):
    """A search in a landscape of scores."""

    def __init__(self, task: str, n: float, budget: tuple[float, float, float], score: Any) -> None:
        super().__init__(task, n, 2, budget)
        self.known = score
        self.tried: list[tuple[int, int, float, int]] = []

    def attempt(self, k: int, window: int, tolerance: float, stride: int) -> bool:
        assert len(self.tried) < 1000
        self.tried.append((k, window, tolerance, stride))
        score = self.known(k, window)
        if score is None or (self.best is not None and score >= self.best[0] - tolerance):
            return False
        self.best = score, k, window
        return True


def test_a_descent_goes_one_step_each_way() -> None:
    search = Landscape("mean", 1000, (3.0, 1e-3, 2.0), lambda k, w: 0.0 if (k, w) == (100, 200) else 1.0)
    search.best = 0.0, 100, 200
    search.descend(1.1, 1e-3)
    assert search.tried == [(at, 200, 1e-3, 2) for at in (110, 91)] + [(100, at, 1e-3, 2) for at in (242, 165)]
    search.tried.clear()
    search.descend(1.1, 1e-4)
    assert {stride for *_, stride in search.tried} == {1}, "steps are finer at the end"
    search.best = 0.0, 180, 140
    search.descend(1.1, 1e-4)
    assert {stride for *_, stride in search.tried[4:]} == {2}
    small = Landscape("mean", 14, (3.0, 1e-3, 1.0), lambda k, w: 0.0 if (k, w) == (4, 7) else 1.0)
    small.best = 0.0, 4, 7
    small.descend(1.01, 1e-3)
    assert [row[:2] for row in small.tried] == [(5, 7), (3, 7), (4, 8), (4, 6)]
    small.best = 0.0, 4, 1
    small.tried.clear()
    small.descend(2.0, 1e-3)
    assert [row[:2] for row in small.tried] == [(8, 1), (2, 1), (4, 4), (4, 1)]
    small.best = 0.0, 4, 7
    small.tried.clear()
    small.descend(3.0, 1e-3)
    assert small.tried[2][1] == 8, "H - 2k + 2"


def test_a_descent_goes_on_as_long_as_it_helps() -> None:
    search = Landscape("mean", 1000, (3.0, 1e-3, 1.0), lambda k, w: abs(math.log(k / 40)) + abs(math.log(w / 300)))
    search.attempt(90, 20, 1e-2, 1)
    search.descend(1.1, 1e-3)
    assert search.best is not None
    assert search.best[0] < 0.15
    assert len(search.tried) <= 70


@pytest.mark.parametrize(("task", "share"), [("mean", 0.65), ("covariance", 0.5), ("gaussian", 0.65)])
def test_a_search_begins_with_a_grid_of_k(task: str, share: float) -> None:
    search = Landscape(task, 150, (3.0, 1e-3, 1.5), lambda *_: None)
    assert search.run() is None
    fewest = greedy._fewest_levels(3.0, 1e-3)
    expected = [fewest]
    while (k := max(expected[-1] + 1, round(1.3 * expected[-1]))) <= 51:
        expected.append(k)
    assert [row[0] for row in search.tried] == expected
    assert [row[1] for row in search.tried] == [max(1, round(share * (100 - 2 * k + 2))) for k in expected]
    assert {row[2:] for row in search.tried} == {(1e-2, 1)}


def test_a_grid_ends_at_the_most_levels() -> None:
    search = Landscape("mean", 1e9, (3.0, 1e-3, 1.0), lambda *_: None)
    search.run()
    ks = [row[0] for row in search.tried]
    assert ks[-1] <= greedy.MOST_LEVELS < 1.3 * ks[-1] + 1
    assert [row[3] for row in search.tried] == [1 + k // 72 for k in ks]
    single = Landscape("mean", 2 * ks[0] - 2, (3.0, 1e-3, 1.0), lambda *_: None)
    single.run()
    assert [row[:2] for row in single.tried] == [(ks[0], 1)]


def test_a_grid_ends_after_three_in_a_row_that_do_not_help() -> None:
    fewest = greedy._fewest_levels(3.0, 1e-3)
    scores = {0: None, 1: None, 2: None, 3: None, 4: 1.0, 5: 1.0, 6: 1.0, 7: 0.9, 8: 1.0, 9: 1.0, 10: 1.0, 11: 0.0}
    ks = [fewest]
    while len(ks) < 12:
        ks.append(max(ks[-1] + 1, round(1.3 * ks[-1])))

    def score(k: int, _: int) -> float | None:
        return scores[ks.index(k)] if k in ks else 1.0

    search = Landscape("mean", 1000, (3.0, 1e-3, 1.0), score)
    search.run()
    assert [row[0] for row in search.tried[:11]] == ks[:11]
    assert all(row[0] != ks[11] for row in search.tried)
    assert search.best is None or search.best[1] == ks[7]


# k and W of the least score, how many attempts it takes, and the score that is found. Less is welcome.
BASINS = [
    (7, 20, 78, 0.0),
    (14, 11, 89, 0.0),
    (30, 200, 49, 0.0),
    (85, 30, 76, 0.0),
    (200, 90, 68, 4.557e-5),
    (400, 100, 40, 2.021e-5),
]


@pytest.mark.parametrize(("k_0", "window_0", "most", "least"), BASINS)
def test_a_search_comes_down_to_the_best_pair(k_0: int, window_0: int, most: int, least: float) -> None:
    def score(k: int, window: int) -> float:
        a, b = math.log(k / k_0), math.log(window / window_0)
        return 1.5 * a * a + 0.2 * b * b + 0.3 * a * b

    search = Landscape("mean", 1000, (3.0, 1e-3, 1.0), score)
    found = search.run()
    assert found is not None
    assert found[0] <= least
    assert len(search.tried) <= most
    assert {row[2] for row in search.tried} == {1e-2, 3e-3, 1e-3, 1e-4, 1e-4 / 4}
    fine = [row for row in search.tried if row[2] == 1e-4]
    assert all(stride == 1 + fine[0][0] // 180 for *_, stride in fine if abs(fine[0][0] - k_0) < 10)


def test_the_score_of_long_strides_is_not_kept() -> None:
    """They may promise what single steps do not hold."""
    fewest = greedy._fewest_levels(3.0, 1e-3)
    search = Landscape("mean", 1000, (3.0, 1e-3, 1.0), lambda *_: None)
    attempt = search.attempt

    def promised(k: int, window: int, tolerance: float, stride: int) -> bool:
        search.known = lambda *_: 0.25 if tolerance <= 1e-4 else 0.0
        return attempt(k, window, tolerance, stride)

    search.attempt = promised
    found = search.run()
    assert found is not None
    assert found[:2] == (0.25, fewest)


def free_law(epsilon: float, delta: float) -> int:
    """How many levels the law has if the release costs nothing: (b) up to 1/2, then (a)."""
    levels, u = 0, 0.0
    while u < 0.5:
        u, levels = math.exp(epsilon) * u + delta, levels + 1
    p = 0.5
    while p > delta:
        p, levels = (p - delta) * math.exp(-epsilon), levels + 1
    return levels


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 1e-2), (0.1, 1e-6), (2.0, 0.2), (3.0, 1e-3), (8.0, 1e-12), (0.5, 0.24), (40.0, 1e-9), (0.01, 0.2)],
)
def test_the_fewest_levels_are_a_little_fewer_than_without_any_release(epsilon: float, delta: float) -> None:
    fewest, free = greedy._fewest_levels(epsilon, delta), free_law(epsilon, delta)
    assert 2 <= fewest <= max(2, free)
    exact = 2 * mp.log(1 + mp.expm1(min(epsilon, 30)) / (2 * mpf(delta))) / epsilon - 1
    assert epsilon > 30 or abs(free - exact) <= 2
    assert fewest == max(2, math.floor(mpf("0.9") * exact))


def test_the_fewest_levels_of_a_large_delta() -> None:
    assert greedy._fewest_levels(1e-5, 0.25) == greedy._fewest_levels(1e-5, 0.3) == greedy._fewest_levels(1.0, 0.9) == 2
    assert greedy._fewest_levels(1e-5, 0.2499) == 2
    assert greedy._fewest_levels(1000.0, 1e-30) == 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "more"), [(0.02, 0.05, 54, 60), (0.02, 0.05, 54, 150), (0.01, 0.2, 15, 30)]
)
def test_what_serves_some_n_serves_a_larger_one_where_epsilon_is_far_below_delta(
    epsilon: float, delta: float, n: int, more: int
) -> None:
    rows = greedy.least_rows("mean", 2, epsilon, delta, 1.0)
    assert rows is not None
    assert rows[0] <= n
    assert greedy.search("mean", more, 2, epsilon, delta, 1.0) is not None


# The least number of rows ---------------------------------------------------------------------------------------------


class Rows(greedy._Rows):
    """A search for the least H among pairs for which it is known."""

    def __init__(self, least: Callable[[int, int], float], epsilon: float = 3.0, delta: float = 1e-3) -> None:
        super().__init__("mean", 2, epsilon, delta)
        self.known = least
        self.asked: list[tuple[float, int, int, int, float]] = []

    def gap(self, h: float, k: int, window: int, stride: int, exactness: float) -> float:
        assert len(self.asked) < 5000
        self.asked.append((h, k, window, stride, exactness))
        return 5.0 * math.log(self.known(k, window) / h)


def test_a_new_search_for_rows() -> None:
    rows = greedy._Rows("mean", 2, 3.0, 1e-3)
    assert (rows.task, rows.d, rows.budget[:2], rows.best, rows.seen) == ("mean", 2, (3.0, 1e-3), None, set())
    assert rows.budget[2] >= 1


def test_attempts_at_fewer_rows() -> None:
    rows = Rows(lambda k, w: 3.5 * k + w + abs(w - 5))
    assert not rows.attempt(1, 5, 1e-3, 1)
    assert not rows.attempt(5, 0, 1e-3, 1)
    assert rows.asked == []
    assert rows.attempt(10, 5, 1e-3, 4)
    assert {row[3] for row in rows.asked} == {4}
    assert rows.best is not None
    assert 40 <= rows.best[0] <= 40 * (1 + 1.01e-3)
    assert rows.best[1:] == (10, 5)
    assert rows.asked[0][0] == 1.5 * (2 * 10 + 5 - 2)
    count = len(rows.asked)
    assert not rows.attempt(10, 5, 1e-4, 1), "it has been looked at"
    assert len(rows.asked) == count
    assert not rows.attempt(10, 7, 1e-3, 1)
    assert len(rows.asked) == count + 1, "one look shows that it is no better"
    assert rows.asked[-1] == (rows.best[0] * (1 - 1e-3), 10, 7, 1, 0.01)
    assert rows.attempt(9, 5, 1e-3, 1)
    assert rows.best[1:] == (9, 5)
    count = len(rows.asked)
    assert not rows.attempt(20, 5, 1e-3, 1), "2k + W - 2 is more than the best"
    assert len(rows.asked) == count


def test_an_attempt_at_rows_ends_where_there_is_no_law() -> None:
    rows = Rows(lambda *_: math.inf)
    assert not rows.attempt(10, 5, 1e-3, 1)
    assert rows.best is None
    highs = [row[0] for row in rows.asked]
    assert all(later == 2 * earlier for earlier, later in pairwise(highs))
    assert highs[-2] <= 128 * 10 < highs[-1]
    for least, there in ((2000.0, True), (2600.0, False)):
        last = Rows(lambda *_, least=least: least)
        assert last.attempt(10, 35, 1e-3, 1) is there, "1272, and once more twice as many, since 128 k is not below"
    assert not Rows(lambda *_: 2000.0).attempt(10, 89, 1e-3, 1), "1284 is above 128 k"
    assert Rows(lambda *_: 500.0).attempt(3, 12, 1e-3, 1), "384 is 128 k"
    far = Rows(lambda *_: 700.0)
    assert far.attempt(10, 5, 1e-3, 1)
    assert far.best is not None
    assert 700 <= far.best[0] <= 700 * 1.0011


@pytest.mark.parametrize(("tolerance", "exactness"), [(4e-3, 1e-3), (3e-4, 1e-3), (1e-4, 1e-6), (1e-6, 1e-6)])
def test_the_least_rows_of_a_pair(tolerance: float, exactness: float) -> None:
    rows = Rows(lambda *_: 55.0)
    found = rows.least(10, 5, 40.0, 80.0, 3, tolerance)
    assert 55 <= found <= 55 * (1 + 1.1 * tolerance)
    assert {row[1:] for row in rows.asked} == {(10, 5, 3, exactness)}
    assert len(rows.asked) <= 8


ROWS = [(10, 5, 43), (24, 9, 100), (60, 30, 133), (150, 100, 186)]


@pytest.mark.parametrize(("k_0", "window_0", "most"), ROWS)
def test_a_search_for_rows_comes_down_to_the_best_pair(k_0: int, window_0: int, most: int) -> None:
    def least(k: int, window: int) -> float:
        a, b = math.log(k / k_0), math.log(window / window_0)
        return 3.5 * k_0 * math.exp(0.8 * a * a + 0.1 * b * b + 0.1 * a * b)

    rows = Rows(least)
    rows.settled = lambda: rows.best
    found = rows.run()
    assert found is not None
    assert 3.5 * k_0 <= found[0] <= 3.5 * k_0 * (1 + 3e-4)
    assert len(rows.asked) <= most


def test_a_search_for_rows_begins_with_a_grid_of_k() -> None:
    rows = Rows(lambda *_: math.inf, 0.01, 1e-2)
    assert rows.run() is None
    ks = list(dict.fromkeys(row[1] for row in rows.asked))
    fewest = greedy._fewest_levels(0.01, 1e-2)
    assert ks[0] == fewest
    assert all(later == round(1.2 * earlier) for earlier, later in pairwise(ks))
    assert ks[-1] <= greedy.MOST_LEVELS < 1.2 * ks[-1] + 1
    assert {(row[1], row[2], row[3]) for row in rows.asked} == {(k, round(k / 2), 1 + k // 72) for k in ks}
    assert greedy._fewest_levels(8.0, 0.2) == 2
    few = Rows(lambda *_: math.inf, 8.0, 0.2)
    few.run()
    assert list(dict.fromkeys(row[1] for row in few.asked))[:4] == [2, 3, 4, 5]


def test_a_grid_for_rows_ends_after_three_in_a_row_that_do_not_help() -> None:
    fewest = greedy._fewest_levels(3.0, 1e-3)
    ks = [fewest]
    while len(ks) < 12:
        ks.append(max(ks[-1] + 1, round(1.2 * ks[-1])))
    best = {2: 90.0, 3: 95.0, 4: 95.0, 5: 80.0, 6: 81.0, 7: 81.0, 8: 81.0, 9: 10.0}
    rows = Rows(lambda k, _: best.get(ks.index(k), math.inf) if k in ks else math.inf)
    rows.descend = lambda *_: None
    rows.settled = lambda: rows.best
    found = rows.run()
    assert found is not None
    assert found[1] == ks[5]
    assert {k for k, _ in rows.seen} == set(ks[:9])


def test_a_descent_in_rows_goes_one_step_each_way() -> None:
    rows = Rows(lambda *_: 1000.0)
    rows.best = 990.0, 80, 40
    rows.descend(1.1, 1e-3)
    assert [row[1:4] for row in rows.asked] == [(88, 40, 2), (72, 40, 2), (80, 48, 2), (80, 32, 2)]
    small = Rows(lambda *_: 1000.0)
    small.best = 990.0, 10, 4
    small.descend(1.01, 1e-3)
    assert [row[1:4] for row in small.asked] == [(11, 4, 1), (9, 4, 1), (10, 5, 1), (10, 3, 1)]
    going = Rows(lambda k, w: 1000.0 + abs(k - 100) + abs(w - 50))
    going.best = 1200.0, 140, 90
    going.descend(1.04, 1e-5)
    assert going.best[1:] == pytest.approx((100, 50), abs=4)


class Ending:
    """Levels whose law exists from some H on."""

    def __init__(self, h: float, law_from: float, walks: list[tuple[Any, float]]) -> None:
        self.h, self.law_from, self.walks = h, law_from, walks

    def most(self) -> float:
        return 7.0

    def noise(self, x: float) -> tuple[float, float]:
        assert x == 7
        return 3.0, 4.0

    def walk(self, noise: Any, cases: Any, exactness: float) -> Any:
        assert noise == (3.0, 4.0)
        self.walks.append((cases, exactness))
        return SimpleNamespace(gap=5.0 * (50.0 - self.h))

    def law(self, noise: Any, cases: Any) -> Any:
        assert noise == (3.0, 4.0)
        assert cases == "all"
        return self if self.h >= self.law_from else None


@pytest.mark.parametrize(("h", "most"), [(48.0, 11), (49.9, 7), (50.0, 8), (50.1, 8), (53.0, 22)])
@pytest.mark.parametrize("later", [0.0, 1e-5, 1e-3, 0.5])
def test_rows_settle_where_a_law_is(h: float, most: int, later: float) -> None:
    rows = Rows(lambda *_: 50.0)
    rows.best = h, 10, 5
    walks: list[tuple[Any, float]] = []

    def levels(h: float, k: int, window: int, stride: int) -> Any:
        assert (k, window, stride) == (10, 5, 1)
        return SimpleNamespace(one_case="one", all_cases="all"), Ending(h, 50.0 + later, walks)

    rows.levels = levels
    found = rows.settled()
    assert found is not None
    assert found[1:] == (10, 5)
    over = {0.0: 4e-5, 1e-5: 4e-5, 1e-3: 1.2e-3, 0.5: 0.79}[later]
    assert 50 + later <= found[0] <= 50 + over
    assert {row[1:4] for row in rows.asked} == {(10, 5, 1)}
    assert len(rows.asked) <= most
    assert {cases for cases, _ in walks} == {"one"}


def test_rows_do_not_settle_without_a_law() -> None:
    for least, law_from, there in ((50.0, 500.0, True), (50.0, 40.0, False), (120.0, 100.0, True)):
        rows = Rows(lambda *_, least=least: least)
        rows.best = 50.0, 10, 5

        def levels(h: float, *_: int, law_from: float = law_from, there: bool = there) -> Any:
            return SimpleNamespace(one_case="one", all_cases="all"), Ending(h, law_from, []) if there else None

        rows.levels = levels
        assert rows.settled() is None
        assert len(rows.asked) <= 60
    late = Rows(lambda *_: 98.0)
    late.best = 50.0, 10, 5
    late.levels = lambda h, *_: (SimpleNamespace(one_case="", all_cases="all"), Ending(h, 9.0, []))
    found = late.settled()
    assert found is not None
    assert found[0] == pytest.approx(98, rel=1e-5)


@pytest.mark.parametrize(("task", "d"), [("mean", 2), ("mean", 1), ("covariance", 2)])
def test_the_gap_in_rows_is_that_of_a_walk_with_all_the_noise(task: str, d: int) -> None:
    rows = greedy._Rows(task, d, 8.0, 1e-3)
    for h, stride in ((16.0, 1), (16.0, 3)):
        search, levels = rows.levels(h, 5, 4, stride)
        assert levels is not None
        assert search.n == h * search.budget[2]
        assert (levels.k, levels.window, levels.sizes) == (5, 4, [1] * 4 if stride == 1 else [3, 1])
        gap = rows.gap(h, 5, 4, stride, 1e-9)
        all_cases = cases_of(d, mean=task == "mean", draws=task != "mean")
        one_case = all_cases if d == 1 or task != "mean" else (curves.ALONG,)
        cases = all_cases if stride == 1 else one_case
        assert gap == pytest.approx(levels.walk(levels.noise(levels.most()), cases, 1e-9).gap, abs=1e-6)
    assert rows.gap(16.0, 8, 9, 1, 1e-9) == math.inf, "the gate is closed"
    assert rows.levels(16.0, 8, 9, 1)[1] is None


def test_rows_without_use_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one draw costs far more than all there is."""
    rows = greedy._Rows("covariance", 2, 8.0, 1e-3)
    assert rows.levels(16.0, 5, 4, 1)[1] is not None
    monkeypatch.setattr(greedy._Levels, "most", lambda _: -20.5)
    assert rows.levels(16.0, 5, 4, 1)[1] is None
    for most in (-20.0, -19.5):
        monkeypatch.setattr(greedy._Levels, "most", lambda _, most=most: most)
        assert rows.levels(16.0, 5, 4, 1)[1] is not None


@pytest.mark.parametrize("task", TASKS)
def test_rows_of_a_mean_are_found_with_every_angle_at_the_end(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    said: list[Any] = []

    def walk(levels: greedy._Levels, noise: Any, cases: Any, exactness: float) -> Any:
        said.append((noise == levels.noise(levels.most()), cases, exactness))
        return SimpleNamespace(gap=0.5)

    monkeypatch.setattr(greedy._Levels, "walk", walk)
    rows = greedy._Rows(task, 2, 8.0, 1e-3)
    for stride in (1, 2, 3):
        assert rows.gap(16.0, 5, 4, stride, 0.25) == 0.5
        search = greedy._Search(task, 16, 2, (8.0, 1e-3, 1.0))
        cases = search.all_cases if task == "mean" and stride == 1 else search.one_case
        assert said[-1] == (True, cases, 0.25)


def test_rows_keep_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greedy, "_Rows", lambda *arguments: SimpleNamespace(run=lambda: arguments))
    greedy.least_ratio.cache_clear()
    task, d, epsilon, delta = greedy.least_ratio("mean", 2, 3.0, 1e-3)
    greedy.least_ratio.cache_clear()
    assert (task, d, epsilon) == ("mean", 2, 3.0)
    assert delta == 1e-3 * (1 - RESERVE)


def test_least_rows_are_the_least_ratio_times_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ratio(*arguments: Any) -> tuple[float, int, int] | None:
        asked.append(arguments)
        return None if arguments[2] == 9 else (13.25 if arguments[2] < 5 else 0.5, 7, 4)

    monkeypatch.setattr(greedy, "least_ratio", ratio)
    assert greedy.least_rows("mean", 10, 1.0, 1e-3, 2.0) == (27, 7, 4)
    assert greedy.least_rows("gaussian", 1, 1.0, 1e-3, 4.0) == (54, 7, 4)
    assert asked == [("mean", 2, 1.0, 1e-3), ("gaussian", 1, 1.0, 1e-3)]
    assert greedy.least_rows("mean", 2, 1.0, 1e-3, 1.0) == (14, 7, 4)
    assert greedy.least_rows("mean", 2, 6.0, 1e-3, 1.0) == (2, 7, 4)
    assert greedy.least_rows("mean", 3, 9.0, 1e-3, 1.0) is None
    assert greedy.least_rows("mean", 3, 1.0, 1e-3, 0.999) is None
    assert greedy.least_rows("mean", 2, 6.0, 1e-3, 6.0) == (4, 7, 4), "never below the ratio, whatever is rounded"


# From (k, W) to a plan ------------------------------------------------------------------------------------------------


def test_a_law_keeps_the_digits_of_small_numbers() -> None:
    u, p = [0.0, 1e-30, 0.3, 0.5, 1 - 1e-16], [1.0, 1.0, 0.7, 0.5, 1e-20]
    walk = greedy._Walk(u, p, -1.0, np.zeros(0))
    law = greedy._exact_law(walk, 7)
    assert law == (1, 1 - Fraction(1e-30), 1 - Fraction(0.3), Fraction(0.5), Fraction(1e-20), 0, 0, 0)
    assert greedy._exact_law(walk, 5)[-2:] == (Fraction(1e-20), 0)
    half = greedy._Walk([0.0, 0.5], [1.0, 0.4375], -1.0, np.zeros(0))
    assert greedy._exact_law(half, 2) == (1, Fraction(0.4375), 0)


class Late:
    """Levels that have a law from some noise on."""

    def __init__(self, task: str, law_from: float, most: float = 6.0) -> None:
        self.task, self.law_from, self.end, self.log_most = task, law_from, most, most
        self.k, self.window = 4, 3
        self.asked: list[tuple[float, float]] = []

    def most(self) -> float:
        return self.end

    def noise(self, x: float) -> tuple[float, float]:
        if self.task == "covariance":
            return 1.0, math.exp(2 * (self.end - x))
        return math.exp(x), 0.0 if self.task == "mean" else math.exp(2 * (self.end - x))

    def law(self, noise: tuple[float, float], cases: Any) -> Any:
        assert cases == "all"
        self.asked.append(noise)
        few = noise[1] <= self.law_from
        there = few if self.task == "covariance" else math.log(noise[0]) >= self.law_from - 1e-12
        return greedy._Walk([0.0, 0.75], [1.0, 0.25], -1.0, np.zeros(0)) if there else None

    def rounded(self, least: float) -> greedy.Found | None:
        return greedy._rounded(self, SimpleNamespace(task=self.task, all_cases="all"), least)


@pytest.mark.parametrize("task", ["mean", "gaussian"])
def test_a_plan_is_rounded_a_little_above_the_least_noise(task: str) -> None:
    for above in (0.0, 1e-9, 7e-9, 7e-8, 7e-7, 7e-6, 7e-5, 3e-4, 0.01, 0.04, 0.15, 0.3, 0.8, 1.9, 3.9):
        levels = Late(task, 1.0 + above)
        found = levels.rounded(1.0)
        assert found is not None
        assert (found.k, found.window) == (4, 3)
        assert found.pass_probabilities == (1, Fraction(1, 4), 0, 0, 0)
        assert found.noise_scale is not None
        over = math.log(found.noise_scale) - 1
        steps = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
        assert above - 1e-11 <= over <= min(step for step in steps if step >= above) + 1e-11
        if task == "mean":
            assert found.samples is None
        else:
            assert found.samples == math.floor(math.exp(2 * (5.0 - over)))
            assert levels.asked[-1][1] == found.samples
    assert Late(task, 5.5).rounded(1.0) is None, "no more than four above the least"
    at_most = Late(task, 1.3, most=1.25)
    assert at_most.rounded(1.0) is None
    assert len(at_most.asked) <= 13
    assert at_most.asked[-1][0] == pytest.approx(math.exp(1.25))
    assert Late(task, 1.25, most=1.25).rounded(1.0) is not None


def test_the_draws_of_a_plan_are_whole() -> None:
    for draws in (1000, 999, 994, 990, 17, 1):
        levels = Late("covariance", draws)
        found = levels.rounded(6.0 - math.log(1000.5) / 2)
        assert found is not None
        assert found.noise_scale is None
        assert found.samples is not None
        assert found.samples <= draws
        if draws > 993:
            assert found.samples == draws
        counts = [samples for _, samples in levels.asked]
        assert all(samples == int(samples) for samples in counts)
        assert all(later < earlier for earlier, later in pairwise(counts))
    levels = Late("covariance", 0)
    assert levels.rounded(6.0 - math.log(3.5) / 2) is None
    assert [samples for _, samples in levels.asked] == [3, 2, 1]
    for task in ("gaussian", "covariance"):
        none = Late(task, -9.0 if task == "gaussian" else 9.0)
        assert none.rounded(6.2) is None, "less than one draw"
        assert none.asked == []


def test_a_plan_is_finished_with_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    answers: list[float | None] = []

    class Finishing(Known):
        def walk(self, noise: Any, cases: Any, exactness: float) -> Any:
            said.append((noise[0], cases, exactness))

        def least(self, cases: Any, start: float, tolerance: float, step: float) -> float | None:
            said.append((cases, start, tolerance, step, self.steepness))
            return answers[-1]

    levels = Finishing(lambda _: 0.0, most=5.0)

    def asked(k: int, window: int, stride: int) -> Any:
        assert (window, stride) == (3, 1)
        return None if k == 2 else levels

    monkeypatch.setattr(greedy, "_rounded", lambda *arguments: arguments)
    search: Any = SimpleNamespace(levels=asked, one_case="one", all_cases="all", steepness=8.0)
    assert greedy._finished(search, 2, 3, 0.5) is None
    for k, tolerance in ((4, 1e-7), (499, 1e-7), (1500, 3e-7)):
        for answer, x in ((1.5, 1.5), (None, 5.0)):
            answers.append(answer)
            said.clear()
            levels.steepness = 0.0
            assert greedy._finished(search, k, 3, 0.5) == (levels, search, x)
            assert said[0] == (0.5, "one", 0.01)
            assert said[1] == ("all", 0.5, pytest.approx(tolerance, rel=1e-12), 2e-4, 8.0)


def test_near_the_least_rows_their_pair_is_tried() -> None:
    search = Pairs({(5, 7): 1.0, (6, 7): 0.9, (9, 9): 25.0})
    assert greedy._near_least(search, None) is None
    assert greedy._near_least(search, (61, 5, 7)) is None
    assert search.asked == []
    found = greedy._near_least(search, (60, 5, 7))
    assert found is not None
    assert found[1:] == (6, 7)
    assert found[0] == pytest.approx(0.4, abs=2e-3)
    assert search.asked[0] == (5, 7, 1)
    assert {pair[1] for pair in search.asked[3:]} == {7, 8, 6}
    assert {tolerance for *_, tolerance in search.seen} == {1e-3}
    hard = Pairs({(9, 9): 25.0})
    assert greedy._near_least(hard, (59, 9, 9)) == (19.5, 9, 9)
    assert hard.asked == [(9, 9, 1), (9, 9, 1)]
    closed = Pairs({})
    assert greedy._near_least(closed, (59, 150, 9)) is None
    assert closed.asked == [(150, 9, 3), (150, 9, 1)]


def test_what_floats_cannot_hold_is_not_served() -> None:
    for epsilon, delta in ((0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, 1.0), (1.0, 1e-280), (1.0, 2.0), (1e-4, 1e-6)):
        assert not greedy._serves(epsilon, delta)
        assert greedy.search("mean", 100, 2, epsilon, delta, 1.0) is None
        assert greedy.least_ratio("mean", 2, epsilon, delta) is None
    assert greedy._serves(1.0, 2e-280)
    assert greedy._serves(1.0, 1 - 1e-9)
    assert greedy._serves(1e-9, 0.25)
    most = bisected(lambda x: greedy._fewest_levels(1 / x, 1e-6) <= 1 << 16, 1.0, 1e6)
    assert greedy._serves(1 / most, 1e-6)
    assert not greedy._serves(1 / (most * 1.001), 1e-6)


def fake_search(monkeypatch: pytest.MonkeyPatch, best: Any, *, closed: bool = False) -> list[Any]:
    """The parts of a search that finds this pair say what they are asked."""
    said: list[Any] = []

    class Fake:
        def __init__(self, *arguments: Any) -> None:
            said.append(arguments)

        def run(self) -> Any:
            return best

        def levels(self, *arguments: int) -> Any:
            said.append(arguments)
            return None if closed else SimpleNamespace(x_of=lambda score: score + 0.25)

    def near_least(_: Any, rows: Any) -> Any:
        return None if rows is None else (0.5, *rows[1:])

    def least_rows(*arguments: Any) -> Any:
        said.append(arguments)
        return (7, 4, 3) if arguments[0] == "mean" else None

    monkeypatch.setattr(greedy, "_Search", Fake)
    monkeypatch.setattr(greedy, "_near_least", near_least)
    monkeypatch.setattr(greedy, "least_rows", least_rows)
    monkeypatch.setattr(greedy, "_finished", lambda _, k, window, start: (k, window, start))
    return said


def test_a_search_finishes_the_best_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    said = fake_search(monkeypatch, (1.0, 10, 17))
    assert greedy.search("mean", 60, 5, 3.0, 1e-3, 1.0) == (10, 17, 1.25)
    assert said == [("mean", 60, 5, (3.0, 1e-3 * (1 - RESERVE), 1.0)), (10, 17, 1)]
    fake_search(monkeypatch, (1.0, 10, 17), closed=True)
    assert greedy.search("mean", 60, 5, 3.0, 1e-3, 1.0) is None


def test_a_search_without_a_pair_looks_near_the_least_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    said = fake_search(monkeypatch, None)
    fewest = greedy._fewest_levels(3.0, 1e-3)
    n = 4 * (fewest - 1)
    assert greedy.search("mean", n, 5, 3.0, 1e-3, 2.0) == (4, 3, 0.75)
    assert said[1:] == [("mean", 2, 3.0, 1e-3, 2.0), (4, 3, 1)]
    assert greedy.search("mean", n, 1, 3.0, 1e-3, 2.0) == (4, 3, 0.75)
    assert said[-2] == ("mean", 1, 3.0, 1e-3, 2.0)
    said.clear()
    assert greedy.search("covariance", n, 5, 3.0, 1e-3, 2.0) is None
    assert len(said) == 2
    said.clear()
    assert greedy.search("mean", n - 1, 5, 3.0, 1e-3, 2.0) is None
    assert len(said) == 1, "the shortest law is too long"


def test_a_search_asks_for_two_rows_and_a_threshold_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = fake_search(monkeypatch, (1.0, 10, 17))
    assert greedy.search("mean", 20, 2, 20.0, 0.3, 0.999) is None
    assert greedy.search("mean", 1, 2, 20.0, 0.9, 1.0) is None
    assert said == []
    assert greedy.search("mean", 2, 2, 20.0, 0.9, 1.0) is not None


# What is found, on record ---------------------------------------------------------------------------------------------

# The score (log c, -log(N)/2, or their sum) and how many walks the search took. Better, and fewer, is welcome.
RECORDS: dict[tuple[str, int, int, float, float, float], tuple[float, int]] = {
    ("mean", 40, 10, 8.0, 1e-6, 1.0): (-3.546276026, 191),
    ("mean", 700, 1, 0.05, 1e-3, 1.0): (-2.25907582, 266),
    ("mean", 15055, 2, 8.0, 1e-6, 1000.0): (1.369749787, 112),
    ("covariance", 12, 1, 20.0, 1e-2, 1.0): (-3.321894867, 108),
    ("gaussian", 14, 2, 20.0, 1e-3, 1.0): (-5.662037406, 119),
}


@pytest.mark.parametrize("request_", RECORDS, ids=lambda r: "-".join(map(str, r)))
def test_plans_are_as_good_as_on_record(
    monkeypatch: pytest.MonkeyPatch, request_: tuple[str, int, int, float, float, float]
) -> None:
    best, most = RECORDS[request_]
    if request_[1] == 15055:
        greedy.least_ratio("mean", 2, 8.0, 1e-6)  # which is kept
    walks = rounds_of(monkeypatch)
    found = greedy.search(*request_)
    assert found is not None
    assert score_of(found) <= best + 1e-6
    assert walks["_walk"] <= 1.05 * most
    assert len(found.pass_probabilities) == found.k + 1
    assert (found.noise_scale is None, found.samples is None) == (request_[0] == "covariance", request_[0] == "mean")


def score_of(found: greedy.Found) -> float:
    return math.log(found.noise_scale or 1) - math.log(found.samples or 1) / 2


RATIOS: dict[tuple[str, int, float, float], tuple[float, int]] = {
    ("mean", 2, 8.0, 1e-6): (15.05485332, 281),
    ("mean", 1, 20.0, 1e-3): (6.06122936, 183),
}


@pytest.mark.parametrize("request_", RATIOS, ids=lambda r: "-".join(map(str, r)))
def test_least_ratios_are_as_good_as_on_record(
    monkeypatch: pytest.MonkeyPatch, request_: tuple[str, int, float, float]
) -> None:
    best, most = RATIOS[request_]
    walks = rounds_of(monkeypatch)
    greedy.least_ratio.cache_clear()
    found = greedy.least_ratio(*request_)
    assert found is not None
    assert found[0] <= best * (1 + 1e-6)
    assert walks["_walk"] <= 1.05 * most
    count = walks["_walk"]
    assert greedy.least_ratio(*request_) == found
    assert walks["_walk"] == count, "it is kept"
