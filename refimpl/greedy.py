"""The greedy law of the SHARP test and the search for k, W and the noise, in floats. Nothing is trusted that is found here.

**The law.** The conditions (a) and (b) of ``refimpl.plan`` allow, for given p_z, an interval of p_{z+1}; the least law takes
its lower end every time, and k steps suffice for a given noise if p_{k-1} <= delta. The walk needs a curve f_z at a point e
that it finds on its way. So each curve is replaced by that of two normal laws a ``width`` apart, tilted, which has the value
and the slope of the true one at the point where the walk used it last; a few rounds of walking and of comparing with the true
curves, all points at once, make the two agree to the last digits. Both steps, (a) in e and (b) in u = 1 - p, are solved by
Newton's method.

**The search.** For each (k, W) the least noise is that at which the walk needs exactly k levels, fractions of a level included;
the difference is called the gap. Over (k, W) it is flat near its minimum: a grid in k, then a pattern search with shrinking
steps. During the search a single case of the curve stands for all, and several steps of a long law are taken as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from refimpl.curves import ALONG, Case, cases_of, curve, hockey_sticks

__all__ = ["MOST_LEVELS", "TASKS", "Found", "least_ratio", "least_rows", "search"]

Floats = NDArray[np.float64]

TASKS = ("mean", "covariance", "gaussian")
RESERVE = 1e-9
"""The law is made for delta (1 - RESERVE): room for the rounding of floats."""

ROUNDING = 1e-15
"""Of a u that (b) allows: u' - e^eps u is compared with a delta that may be many orders below u."""

MOST_LEVELS = 1 << 16
ANY_LAMBDA = 50.0  # where only n/lambda_0 matters
FINE_FROM = 1e-4
MOST_NOISE = 20.0  # log of the noise over that of a mechanism without a test, which is the least conceivable
FAR = 600.0  # in e: what is beyond is 0, and e^e must have room
COARSE_STEPS = 72  # of the law while searching; a longer one is walked in strides
FINE_STEPS = 180  # of the law in the last stages of the search
ROOT_HALF = math.sqrt(0.5)
SMALL_STEP = 1e-6  # of Newton's method, in widths: the next would be lost in the rounding


@dataclass(frozen=True)
class Found:
    """A plan in the making: k, W, the law as exact dyadic rationals, c and N."""

    k: int
    window: int
    pass_probabilities: tuple[Fraction, ...]
    noise_scale: float | None
    samples: int | None


# The curve of two normal laws, bent into shape ------------------------------------------------------------------------


def _price(width: float, e: float) -> float:
    """HS_e of N(width, 1) and N(0, 1)."""
    a, b = (e / width - width / 2) / math.sqrt(2), (e / width + width / 2) / math.sqrt(2)
    return (math.erfc(a) - math.exp(e) * math.erfc(b)) / 2


class _Model(NamedTuple):
    """A curve near one point: that of a width, tilted there, for e < 0 by exchanging the two laws.

    The tilt is a factor e^{tilt x/(1 + abs(x)/reach)} with x = abs(e) - at, and reach half the width: further away it gives way
    to the width's own shape.
    """

    width: float
    tilt: float
    at: float

    def value(self, e: float) -> float:
        """The curve at e."""
        return self.both(e)[0]

    def both(self, e: float) -> tuple[float, float]:
        """Curve and derivative at any e."""
        if e >= 0:
            return self.positive(e)
        if e < -FAR:
            return 1.0, -0.0
        growth, (value, slope) = math.exp(e), self.positive(-e)
        return growth * value - math.expm1(e), growth * (value - 1 - slope)

    def positive(self, e: float) -> tuple[float, float]:
        """Curve and derivative at e >= 0."""
        width = self.width
        if e > FAR:
            return 0.0, 0.0
        near, half = e / width, width / 2
        other = math.exp(e) * math.erfc((near + half) * ROOT_HALF)
        price = math.erfc((near - half) * ROOT_HALF) - other
        x = e - self.at
        yielding = 1 + 2 * abs(x) / width
        half_factor = math.exp(self.tilt * x / yielding) / 2
        value = price * half_factor
        return value, self.tilt / (yielding * yielding) * value - other * half_factor

    def loss_at(self, target: float, e: float) -> float:
        """The e at which the curve has the value ``target``, by Newton's method for its logarithm from e."""
        enough = SMALL_STEP * self.width
        for _ in range(60):
            value, slope = self.both(e)
            if value < 1e-290 or slope >= 0:  # too far, or just below 0, where a curve can have a little hill
                e = abs(e) / 2
                continue
            step = math.log(target / value) * value / slope
            e += max(-1.0, min(1.0, step)) if abs(e) < 1 else step
            if abs(step) < enough:
                break
        return e


def _models(e: Floats, values: Floats, slopes: Floats, start: Floats) -> tuple[Floats, Floats, Floats]:
    """Width, tilt and place of models that have these values and slopes at abs(e).

    Where no width has the value, the nearest that floats can tell is taken.
    """
    e = np.abs(e)
    values = np.clip(values, 1e-290, 1 - 1e-12)
    width = start.copy()
    with np.errstate(all="ignore"):  # a start far off gives no usable step, and is halved or doubled instead
        for _ in range(40):
            near = e / width - width / 2
            price = ndtr(-near) - np.exp(e) * ndtr(-near - width)
            vega = np.exp(-near * near / 2) / math.sqrt(2 * math.pi)
            step = np.where(price > 0, np.log(values / price) * price / vega, np.inf)
            step = np.where(np.isnan(step), np.inf, step)
            width = np.clip(width + step, width / 2, width * 2)
            if np.all(np.abs(step) <= 1e-13 * width):
                break
        tilt = slopes / values + np.exp(e) * ndtr(-near - width) / price
    # a tilt beyond this does not describe the curve further than to the next digit
    return width, np.clip(np.where(np.isfinite(tilt) & (values > 1e-280), tilt, 0.0), -20 / width, 20 / width), e


# The walk ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Walk:
    """u_z and p_z at the points of a walk, how many levels it is short of, and the e at which its curves were used."""

    u: list[float]
    p: list[float]
    gap: float
    points: Floats


def _gain_step(u: float, growth: float, epsilon: float, delta: float, model: _Model) -> float:
    """The largest u' that (b) allows, 1 or more if all."""
    if growth * u + delta >= 1:
        return 1.0
    found = growth * u + delta
    for _ in range(30):
        e = epsilon + max(math.log1p(-u) - math.log1p(-found), 0.0)
        value, slope = model.positive(e)
        step = (found - growth * u - delta + (1 - found) * value) / max(1 - value + slope, 0.05)
        found = min(found - step, (1 + found) / 2)
        if found <= growth * u or abs(step) <= max(1e-15 * found, SMALL_STEP * model.width * (1 - found)):
            break
    return found


def _several(found: float, u: float, growth: float, epsilon: float, stride: int) -> float:
    """U after so many steps as that from u to ``found``, which differ from e^epsilon u by one and the same number."""
    excess = max(found - growth * u, 0.0)  # up to growth * u (b) follows from (a)
    if stride == 1:
        return (growth * u + excess) * (1 - ROUNDING)
    steps = math.exp(epsilon * stride) * u + excess * math.expm1(epsilon * stride) / math.expm1(epsilon)
    return steps * (1 - ROUNDING)


def _walk(epsilon: float, delta: float, models: Sequence[_Model], sizes: Sequence[int]) -> _Walk:
    """The greedy law with models of the curves, first those for (a), then those for (b).

    The smaller u' counts. The gap is infinite where the law comes to a halt.
    """
    us, ps, passed, growth = [0.0], [1.0], 0, math.exp(epsilon)
    points, count = np.full(2 * len(sizes), epsilon), len(sizes)
    e, last = epsilon / 2, 0.0
    for i, stride in enumerate(sizes):
        here, u = ps[-1], us[-1]
        if here <= delta:
            passed += stride
            continue
        after = _gain_only(u, here, (epsilon, growth, delta), (models[i], models[i + count]), stride)
        if after is not None:
            drop, last = _logs(here, u, 1 - after, after) / stride, 0.0
            us.append(after)
            ps.append(1 - after)
        else:
            e = models[i].loss_at(delta / here, e)
            drop = epsilon - e
            if drop <= 0:
                return _Walk(us, ps, math.inf, points)
            if u >= 0.5 and -here * math.expm1(-drop) > (growth - 1) * u:  # else (b) follows from (a)
                u_b = _gain_step(u, growth, epsilon, delta, models[i + count])
                drop = min(drop, _logs(here, u, 1 - u_b, u_b)) if u_b < 1 else drop
            rate, last = (drop - last) / sizes[i - 1] if last else 0.0, drop
            whole = stride * max(drop + rate * (stride - 1) / 2, drop / 2)
            us.append(u - here * math.expm1(-whole))
            ps.append(here * math.exp(-whole))
        if us[-1] <= u:
            return _Walk(us, ps, math.inf, points)
        points[i], points[i + count] = epsilon - drop, epsilon + drop
    return _Walk(us, ps, _missing(ps, epsilon, delta, sizes, passed), points)


def _missing(ps: Sequence[float], epsilon: float, delta: float, sizes: Sequence[int], passed: int) -> float:
    """How many levels more the law needs to come down to delta, about; how many it could do without, negative, if it does.

    Where f(e) = 1 - e^e, as for e far below 0, p falls by epsilon p + delta in a level.
    """
    if ps[-1] > delta:
        return math.log((epsilon * ps[-1] / delta + 1) / (epsilon + 1)) / epsilon
    share = math.log(delta / ps[-1]) / math.log(ps[-2] / ps[-1]) if len(ps) > 1 else 1.0
    return -passed - share * sizes[len(ps) - 2]


def _gain_only(
    u: float, here: float, budget: tuple[float, float, float], models: tuple[_Model, _Model], stride: int
) -> float | None:
    """U after a stride if it is (b)'s alone to say: below 1/2, and what (b) allows meets (a)."""
    epsilon, growth, delta = budget
    if u >= 0.5:
        return None
    found = _gain_step(u, growth, epsilon, delta, models[1])
    if found >= 1 or here * models[0].value(epsilon + math.log1p(-found) - math.log1p(-u)) > delta:
        return None
    after = _several(found, u, growth, epsilon, stride)
    return after if stride == 1 or after < 0.6 else None


def _logs(here: float, u: float, after: float, u_after: float) -> float:
    """log(p/p'), to full relative accuracy."""
    return math.log(here / after) if here < 0.5 else math.log1p(-u) - math.log1p(-u_after)


# The bounds in floats ------------------------------------------------------------------------------------------------


def _changes(h: float, k: int, window: int, r: Floats, others: Floats) -> Floats:
    last = 1 / (h - (k + window - 1) - r * (1 - 1 / window)) / window
    return np.asarray(np.maximum(1 / (h - k), last) + others * last)


def _largest_radius(n: float, h: float, k: int, window: int, r: Floats) -> Floats:
    """A of ``refimpl.plan``, with its maximum over real L."""
    g, first = 1 + r / window, h - k

    def square(j: Any) -> Any:
        return (1 - j / window) ** 2 * (n / (first - g * j) - 1)

    largest = np.maximum(square(0.0), square(window - 1.0))
    # F = 2 g^2 j^2 + g (n - 4 (h-k)) j + const: up to its first root the square rises
    a, b, c = 2 * g * g, g * (n - 4 * first), 2 * first * (first - n) + n * g * window
    square_root = b * b - 4 * a * c
    inside = (c > 0) & (b < 0) & (square_root > 0)
    root = np.where(inside, (-b - np.sqrt(np.maximum(square_root, 0))) / (2 * a), 0)
    return np.asarray(np.sqrt(np.maximum(largest, square(np.minimum(root, window - 1)))))


def _moves(n: float, h: float, k: int, window: int, z: Floats) -> Floats:
    r = np.minimum(z + 1, k - 1)
    inner = _largest_radius(n, h, k, window, r)
    other = np.sqrt(n / (h - (k + window - 1) - r * (1 - 1 / window)) - 1) / window

    def move(others: Floats, outer: Floats) -> Floats:
        stretch = 1 / np.sqrt(1 - _changes(h, k, window, r, others))
        one_row = np.maximum(outer * stretch + inner, outer + inner * stretch)
        return np.asarray((one_row + others * other * stretch) / (n - 1 - others))

    first = move(z, np.sqrt(n / (h - z) - 1))
    return np.maximum(first, np.where(z >= 1, move(np.maximum(z - 1, 0), inner), 0))


# One pair (k, W) -----------------------------------------------------------------------------------------------------


def _ideal_width(epsilon: float, delta: float) -> float:
    """The width whose curve is delta at epsilon: of a mechanism that spends everything on the release."""
    low, high = -60.0, 12.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _price(math.exp(middle), epsilon) < delta else (low, middle)
    return math.exp(low)


class _Levels:
    """The walks for one (k, W): curves, their widths so far, and noises by one number x, the log of noise over the ideal."""

    def __init__(
        self, task: str, n: float, budget: tuple[float, float, float], k: int, window: int, stride: int
    ) -> None:
        self.task, (self.epsilon, self.delta, lambda_0) = task, budget
        self.k, self.window = k, window
        h = n / lambda_0
        starts = list(range(0, k - 1, stride))
        self.sizes = [min(stride, k - 1 - z) for z in starts]
        z = np.array(starts, dtype=float)
        self.change = _changes(h, k, window, np.minimum(z + 1, k - 1), z)
        self.move = _moves(n, h, k, window, z) if task != "covariance" else np.zeros(len(starts))
        self.points = np.full(2 * len(starts), self.epsilon)
        self.widths = np.full(2 * len(starts), 0.1)
        ideal = _ideal_width(self.epsilon, self.delta)
        # log c = log_c + x for the mean; N = (most e^{-x})^2 for draws; both moves of the learner weigh the same
        self.log_c = (
            math.log(self.move[0] / ideal) + (math.log(2) / 2 if task == "gaussian" else 0) if self.move[0] else 0.0
        )
        self.log_most = math.log(ideal / self.change[0])
        self.log_balance = math.log(self.move[0] / self.change[0]) if self.move[0] else 0.0
        self.steepness = 0.0  # of the gap in x, once it is known
        self.largest: NDArray[np.intp] | None = None  # which case is it at each point, once all were looked at

    def noise(self, x: float) -> tuple[float, float]:
        """C and N, as reals, at x."""
        if self.task == "covariance":
            return 1.0, math.exp(2 * max(self.log_most - x, 0.0))
        c = self.log_c + x
        return math.exp(c), 0.0 if self.task == "mean" else math.exp(2 * max(self.log_balance - c, 0.0))

    def score(self, x: float) -> float:
        """What the search makes small: log c, -log(N)/2, or their sum."""
        c, samples = self.noise(x)
        return math.log(c) - math.log(max(samples, 1.0)) / 2

    def x_of(self, score: float) -> float:
        """The x of a score."""
        if self.task == "covariance":
            return score + self.log_most
        if self.task == "gaussian" and score <= self.log_balance:
            score = (score + self.log_balance) / 2
        return score - self.log_c

    def most(self) -> float:
        """The x beyond which more noise is not to be had, or not worth a name."""
        return self.log_most if self.task == "covariance" else MOST_NOISE

    def curve(self, noise: tuple[float, float], cases: Sequence[Case]) -> tuple[Floats, Floats]:
        """f_z where the last walk used it, and its slope.

        Which case is the largest is looked up at some points; between two with one answer, that one is evaluated alone.
        """
        (e, moves, changes), half = self.used(noise), len(self.points) // 2
        if noise[1] == 0 or len(cases) < 3:
            return curve(e, moves, changes, noise[1], cases)
        if self.largest is None:
            turning = np.arange(half - 20, half + 1).clip(0)  # at the last scores the angle turns quickly
            probes = np.unique(np.concatenate([np.arange(0, 2 * half, 2 + half // 50), turning, [2 * half - 1]]))
            best = hockey_sticks(e[probes], moves[probes], changes[probes], noise[1], cases)[0].argmax(axis=1)
            after = np.searchsorted(probes, np.arange(2 * half))
            before = np.where(probes[after] == np.arange(2 * half), after, after - 1)
            groups = np.where(best[before] == best[after], best[after], -1)
        else:
            groups = self.largest
        values, slopes = np.empty(2 * half), np.empty(2 * half)
        for j in np.unique(groups):
            at = np.flatnonzero(groups == j)
            some = cases if j < 0 else (cases[j],)
            values[at], slopes[at] = curve(e[at], moves[at], changes[at], noise[1], some)
        return values, slopes

    def used(self, noise: tuple[float, float]) -> tuple[Floats, Floats, Floats]:
        """The e, move and change of f_z where the last walk used it."""
        return np.abs(self.points), np.tile(self.move, 2) / noise[0], np.tile(self.change, 2)

    def full_curve(self, noise: tuple[float, float], cases: Sequence[Case]) -> tuple[Floats, Floats]:
        """f_z and its slope where the last walk used it, by every case; later rounds look at the largest of each."""
        if noise[1] == 0:
            return curve(*self.used(noise), noise[1], cases)
        values, slopes = hockey_sticks(*self.used(noise), noise[1], cases)
        self.largest, rows = values.argmax(axis=1), np.arange(len(values))
        return values[rows, self.largest], slopes[rows, self.largest]

    def holds(self, walk: _Walk, values: Floats) -> bool:
        """Whether a walk of single steps meets (a) and (b) with these values of f_z(|e|), but for part of the reserve."""
        u, p, half = np.array(walk.u), np.array(walk.p), len(values) // 2
        below = np.minimum(self.points, 0)
        values = np.exp(below) * values - np.expm1(below) * (self.points < 0)
        steps = len(u) - 1
        losses = p[:-1] * values[:steps]
        gains = np.maximum(u[1:] - math.exp(self.epsilon) * u[:-1], 0) + p[1:] * values[half : half + steps]
        return bool(max(losses.max(), gains.max()) <= self.delta * (1 + RESERVE / 3))

    def walk(self, noise: tuple[float, float], cases: Sequence[Case], exactness: float) -> _Walk:
        """The walk at a noise, compared with the true curves until its gap and its points settle."""
        last = math.inf
        for again in range(16):
            walk = self.round(*self.curve(noise, cases))
            moved = float(np.abs(walk.points - self.points).max())
            self.points = walk.points
            if abs(walk.gap - last) <= exactness and moved <= exactness * self.epsilon:
                break
            if again > 2 and walk.gap == last == math.inf:
                break
            last = walk.gap
        return walk

    def round(self, values: Floats, slopes: Floats) -> _Walk:
        """One walk with models of the curves at the points so far, where they have these values and slopes."""
        self.widths, tilts, places = _models(self.points, values, slopes, self.widths)
        three = zip(self.widths.tolist(), tilts.tolist(), places.tolist(), strict=True)
        return _walk(self.epsilon, self.delta, [_Model(*numbers) for numbers in three], self.sizes)

    def law(self, noise: tuple[float, float], cases: Sequence[Case]) -> _Walk | None:
        """The walk of single steps that ends in time and meets (a) and (b) with the true curves; None if there is none.

        At a kink of a curve the points can go to and fro. Later rounds go half the way where they turned back, until what is
        left does not matter.
        """
        last, before = math.inf, np.zeros_like(self.points)
        values, slopes = self.curve(noise, cases)
        for again in range(40):
            walk = self.round(values, slopes)
            moves = walk.points - self.points
            turned = (moves * before < 0) & (again > 5) & (np.abs(moves) > 1e-8 * self.epsilon)
            self.points, before = np.where(turned, self.points + moves / 2, walk.points), moves
            values, slopes = self.curve(noise, cases)
            if not turned.any() and walk.gap < math.inf and self.holds(walk, values):
                values, slopes = self.full_curve(noise, cases)
                if self.holds(walk, values) and (walk.gap <= 0 or abs(walk.gap - last) < 1e-9):
                    return walk if walk.gap <= 0 else None
            if again > 2 and walk.gap == last == math.inf:
                break
            last = walk.gap
        return None

    def least(self, cases: Sequence[Case], start: float, tolerance: float, step: float) -> float | None:
        """The least x at which the walk ends in time, from above to within the tolerance; None if there is none.

        Where the gap's slope is known from before, the first steps are Newton's.
        """

        def gap(x: float) -> float:
            return self.walk(self.noise(x), cases, 30 * tolerance).gap

        low, high = -math.inf, math.inf
        x, at_low, at_high, least_step = min(start, self.most()), math.inf, 0.0, 2 * tolerance
        while high - low > 1e200:
            value = gap(x)
            further = step
            if self.steepness and math.isfinite(value):
                further = min(max(1.1 * abs(value) / self.steepness, least_step), 4 * step)
            if value > 0:
                if x >= self.most():
                    return None
                low, at_low, x = x, value, min(x + further, self.most())
            else:
                high, at_high, x = x, value, x - further
                if x < -MOST_NOISE:
                    return high
            step, least_step = 3 * step, 4 * least_step
        self.steepness = (at_low - at_high) / (high - low) if math.isfinite(at_low) else 0.0
        return _root(gap, low, high, at_low, at_high, tolerance)


def _root(
    gap: Callable[[float], float], low: float, high: float, at_low: float, at_high: float, tolerance: float
) -> float:
    """Where a falling function comes to 0, from above to within the tolerance; at low it is positive, at high it is not."""
    while high - low > tolerance:
        x = (low + high) / 2
        if at_high < at_low < math.inf:
            share = at_low / (at_low - at_high)
            x = low + (high - low) * min(max(share, 0.02), 0.98)
            x = min(max(x, low + tolerance / 4), high - tolerance / 4)
        value = gap(x)
        if value > 0:
            low, at_low, at_high = x, value, at_high / 2
        else:
            high, at_high, at_low = x, value, at_low / 2
    return high


# The search over (k, W) ----------------------------------------------------------------------------------------------


def _most_window(n: float, lambda_0: float, k: int) -> int:
    """The largest window that the gate could admit: H - t > (k-1)(1 - 1/W)."""
    return math.floor(n / lambda_0 - 2 * k + 2)


class _Search:
    """A pattern search over k and the share of the largest window, with one case of the curve for all."""

    def __init__(self, task: str, n: float, d: int, budget: tuple[float, float, float]) -> None:
        self.task, self.n, self.budget = task, n, budget
        self.all_cases = cases_of(d, mean=task != "covariance", draws=task != "mean")
        self.one_case = {"mean": (ALONG,), "gaussian": self.all_cases[1:2]}.get(task, self.all_cases)
        if d == 1:
            self.one_case = self.all_cases
        self.best: tuple[float, int, int] | None = None
        self.start, self.steepness = 0.2, 0.0
        self.seen: set[tuple[int, int, float]] = set()

    def levels(self, k: int, window: int, stride: int) -> _Levels | None:
        """The walks for (k, W), or None if the gate is closed."""
        h = self.n / self.budget[2]
        if k < 2 or window < 1 or h - (k + window - 1) - (k - 1) * (1 - 1 / window) <= 1e-9 * h:
            return None
        if _changes(h, k, window, np.array(k - 1.0), np.array(k - 1.0)) > 0.98:
            return None
        return _Levels(self.task, self.n, self.budget, k, window, stride)

    def attempt(self, k: int, window: int, tolerance: float, stride: int) -> bool:
        """Whether (k, W) beats the best so far by more than the tolerance; it then becomes the best."""
        if (k, window, tolerance) in self.seen:
            return False
        self.seen.add((k, window, tolerance))
        levels = self.levels(k, window, stride)
        if levels is None:
            return False
        goal = levels.most() if self.best is None else levels.x_of(self.best[0] - tolerance)
        if goal < -MOST_NOISE or levels.walk(levels.noise(goal), self.one_case, 0.1).gap > 0:
            return False
        levels.steepness = self.steepness
        x = levels.least(self.one_case, min(goal, self.start), tolerance, 20 * tolerance)
        if x is None:
            return False
        self.start, self.steepness = x, levels.steepness
        self.best = levels.score(x), k, window
        return True

    def run(self) -> tuple[float, int, int] | None:
        """The least score found, with its k and W, or None."""
        epsilon, delta, lambda_0 = self.budget
        share = 0.5 if self.task == "covariance" else 0.65
        k, misses = _fewest_levels(epsilon, delta), 0
        while k <= min(self.n / lambda_0 / 2 + 1, MOST_LEVELS) and misses < 3:
            window = max(1, round(share * _most_window(self.n, lambda_0, k)))
            better = self.attempt(k, window, 1e-2, 1 + k // COARSE_STEPS)
            misses = misses + 1 if self.best and not better else 0
            k = max(k + 1, round(k * 1.3))
        if self.best is not None:
            for factor, tolerance in ((1.15, 3e-3), (1.07, 1e-3)):
                self.descend(factor, tolerance)
            _, k, window = self.best
            self.best = None  # its score is that of long strides
            if self.attempt(k, window, FINE_FROM, 1 + k // FINE_STEPS):
                self.descend(1.03, FINE_FROM)
                self.descend(1.015, FINE_FROM / 4)
        return self.best

    def descend(self, factor: float, tolerance: float) -> None:
        """Steps by one factor in k or in the window as long as they help."""
        helped, steps = True, COARSE_STEPS if tolerance > FINE_FROM else FINE_STEPS
        assert self.best is not None, "the grid found a first pair"
        stride = 1 + self.best[1] // steps  # one for all, or its change would be taken for one of the noise
        while helped:
            _, k, window = self.best
            up, down = max(k + 1, round(k * factor)), min(k - 1, round(k / factor))
            tried = [self.attempt(at, window, tolerance, stride) for at in (up, down)]
            _, k, window = self.best
            most = _most_window(self.n, self.budget[2], k)
            wide = min(most, max(window + 1, round(window * factor**2)))
            narrow = max(1, min(window - 1, round(window / factor**2)))
            tried += [self.attempt(k, at, tolerance, stride) for at in (wide, narrow)]
            helped = any(tried)


def _fewest_levels(epsilon: float, delta: float) -> int:
    """About how many levels the law needs when the release costs nothing, and a little less."""
    if delta >= 0.25:
        return 2
    # Up to 1/2 by u' = e^epsilon u + delta, and down from there, one level less, by p' = e^-epsilon (p - delta).
    rising = math.log1p(math.expm1(min(epsilon, 30.0)) / (2 * delta)) / epsilon
    return max(2, math.floor(0.9 * (2 * rising - 1)))


# The least number of rows --------------------------------------------------------------------------------------------


class _Rows:
    """A pattern search for the least H = n/lambda_0 at which some (k, W) has a law.

    With all the noise that one likes the move of the mean does not matter, and what is left depends on n and lambda_0 through H
    only.
    """

    def __init__(self, task: str, d: int, epsilon: float, delta: float) -> None:
        self.task, self.d, self.budget = task, d, (epsilon, delta, ANY_LAMBDA)
        self.best: tuple[float, int, int] | None = None
        self.seen: set[tuple[int, int]] = set()

    def levels(self, h: float, k: int, window: int, stride: int) -> tuple[_Search, _Levels | None]:
        """The walks for (k, W) at H = h, or None where the gate is closed."""
        search = _Search(self.task, h * ANY_LAMBDA, self.d, self.budget)
        levels = search.levels(k, window, stride)
        return search, None if levels is None or levels.most() < -MOST_NOISE else levels

    def gap(self, h: float, k: int, window: int, stride: int, exactness: float) -> float:
        """By how many levels the law is too long. Where all noise is allowed every angle is alike, but not its bound."""
        search, levels = self.levels(h, k, window, stride)
        cases = search.all_cases if self.task == "mean" and stride == 1 else search.one_case
        return math.inf if levels is None else levels.walk(levels.noise(levels.most()), cases, exactness).gap

    def least(self, k: int, window: int, low: float, high: float, stride: int, tolerance: float) -> float:
        """The least H in (low, high] for (k, W), nearly; high admits it, low does not."""

        def gap(x: float) -> float:
            return self.gap(math.exp(x), k, window, stride, 1e-3 if tolerance > FINE_FROM else 1e-6)

        bottom, top = math.log(low), math.log(high)
        return math.exp(_root(gap, bottom, top, gap(bottom), gap(top), tolerance))

    def attempt(self, k: int, window: int, tolerance: float, stride: int) -> bool:
        """Whether (k, W) needs fewer rows than the best so far, which it then becomes."""
        if (k, window) in self.seen or k < 2 or window < 1:
            return False
        self.seen.add((k, window))
        low = 2.0 * k + window - 2
        high = 1.5 * low if self.best is None else self.best[0] * (1 - tolerance)
        while high <= low or self.gap(high, k, window, stride, 0.01) > 0:
            if self.best is not None or high > 128 * k:
                return False
            low, high = high, 2 * high
        self.best = self.least(k, window, low, high, stride, tolerance), k, window
        return True

    def run(self) -> tuple[float, int, int] | None:
        """(H, k, W), or None if no k up to the limit serves."""
        k, misses = _fewest_levels(*self.budget[:2]), 0
        while k <= MOST_LEVELS and misses < 3:
            better = self.attempt(k, max(1, round(k / 2)), 4e-3, 1 + k // COARSE_STEPS)
            misses = misses + 1 if self.best and not better else 0
            k = max(k + 1, round(k * 1.2))
        if self.best is None:
            return None
        for factor, tolerance in ((1.1, 1e-3), (1.04, 3e-4), (1.015, 1e-4)):
            self.descend(factor, tolerance)
        return self.settled()

    def descend(self, factor: float, tolerance: float) -> None:
        """Steps by one factor in k or in W as long as they help."""
        assert self.best is not None, "a first pair was found"
        helped, stride = True, 1 + self.best[1] // COARSE_STEPS
        while helped:
            _, k, window = self.best
            step = max(1, round(k * (factor - 1)))
            tried = [self.attempt(at, window, tolerance, stride) for at in (k + step, k - step)]
            _, k, window = self.best
            step = max(1, round(2 * window * (factor - 1)))
            tried += [self.attempt(k, at, tolerance, stride) for at in (window + step, window - step)]
            helped = any(tried)

    def settled(self) -> tuple[float, int, int] | None:
        """The least H of the best (k, W) with every step of the law, and with a law that holds."""
        assert self.best is not None, "a first pair was found"
        h, k, window = self.best
        low, high = h * (1 - 2.0**-8), h * (1 + 2.0**-8)
        while self.gap(low, k, window, 1, 1e-3) <= 0:
            low, high = low * (1 - 2.0**-8), low
        while self.gap(high, k, window, 1, 1e-3) > 0:
            low, high = high, high * (1 + 2.0**-6)
            if high > 2 * h:
                return None
        found = self.least(k, window, low, high, 1, 1e-6)
        for step in range(-17, 0):
            search, levels = self.levels(found, k, window, 1)
            if levels is None:
                return None
            levels.walk(levels.noise(levels.most()), search.one_case, 1e-6)  # a start
            if levels.law(levels.noise(levels.most()), search.all_cases) is not None:
                return found, k, window
            found *= 1 + 2.0**step
        return None


def least_rows(task: str, d: int, epsilon: float, delta: float, lambda_0: float) -> tuple[int, int, int] | None:
    """The least n that has a plan, as far as the search finds, with its k and W; None if the problem is not served.

    Parameters
    ----------
    task, d, epsilon, delta, lambda_0
        As for :func:`search`.
    """
    found = least_ratio(task, min(d, 2), epsilon, delta) if lambda_0 >= 1 else None
    return None if found is None else (max(2, math.ceil(found[0] * lambda_0 * (1 + 1e-12))), *found[1:])


@lru_cache(maxsize=256)
def least_ratio(task: str, d: int, epsilon: float, delta: float) -> tuple[float, int, int] | None:
    """The least n/lambda_0 that has a plan, whatever lambda_0 >= 1 is, as far as the search finds, with k and W; or None.

    Parameters
    ----------
    task, d, epsilon, delta
        As for :func:`search`; of d only whether it is 1 matters.
    """
    return _Rows(task, d, epsilon, delta * (1 - RESERVE)).run() if _serves(epsilon, delta) else None


# From (k, W) to a plan -----------------------------------------------------------------------------------------------


def _finished(search: _Search, k: int, window: int, start: float) -> Found | None:
    """The plan of (k, W): the noise to seven digits, rounded, and its law, with every case of the curve."""
    levels = search.levels(k, window, 1)
    if levels is None:
        return None
    levels.walk(levels.noise(start), search.one_case, 0.01)
    levels.steepness = search.steepness
    x = levels.least(search.all_cases, start, 1e-7 * max(1.0, k / 500), 2e-4)
    return _rounded(levels, search, levels.most() if x is None else x)


def _rounded(levels: _Levels, search: _Search, least: float) -> Found | None:
    """The plan at the least x or a little above, where the law with whole N ends and holds.

    Just above the least n its walk can go to and fro between two ways, and needs more noise than the least to settle.
    """
    x, before = least, math.inf
    for shift in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 0.0):
        if x == before:
            return None
        c, samples = levels.noise(x)
        whole = math.floor(samples)
        if search.task != "mean" and whole < 1:
            return None
        walk = levels.law((c, float(whole)), search.all_cases)
        if walk is not None:
            scale = None if search.task == "covariance" else c
            draws = None if search.task == "mean" else whole
            return Found(levels.k, levels.window, _exact_law(walk, levels.k), scale, draws)
        before, x = x, min(least + shift, levels.most())
        if search.task == "covariance":  # at least the next whole number
            x = max(x, levels.log_most - math.log(max(whole - 1, 1)) / 2)
    return None


def _exact_law(walk: _Walk, k: int) -> tuple[Fraction, ...]:
    """p_0, ..., p_k as dyadic rationals: 1 - u while u is the smaller, so that a small u keeps its digits."""
    law = [1 - Fraction(u) if u < 0.5 else Fraction(p) for u, p in zip(walk.u, walk.p, strict=True)]
    return tuple(law + [Fraction(0)] * (k + 1 - len(law)))


def search(task: str, n: int, d: int, epsilon: float, delta: float, lambda_0: float) -> Found | None:
    """The plan of least noise that the search finds, or None.

    Parameters
    ----------
    task
        "mean" (least c), "covariance" (most N) or "gaussian" (both, their moves alike).
    n, d, epsilon, delta, lambda_0
        Public numbers; floats near to them are good enough.
    """
    if not (_serves(epsilon, delta) and lambda_0 >= 1 and n >= 2):
        return None
    found = _Search(task, n, d, (epsilon, delta * (1 - RESERVE), lambda_0))
    best = found.run()
    if best is None and _fewest_levels(epsilon, delta) <= n / lambda_0 / 2 + 1:
        best = _near_least(found, least_rows(task, min(d, 2), epsilon, delta, lambda_0))
    if best is None:
        return None
    score, k, window = best
    levels = found.levels(k, window, 1)
    return None if levels is None else _finished(found, k, window, levels.x_of(score))


def _near_least(search: _Search, rows: tuple[int, int, int] | None) -> tuple[float, int, int] | None:
    """The best (k, W) just above the least n, where they are so few that a grid misses them.

    What serves some n serves every larger one: so there is a plan if and only if n is not below the least.
    """
    if rows is None or rows[0] > search.n:
        return None
    _, k, window = rows
    if search.attempt(k, window, 1e-3, 1 + k // COARSE_STEPS):
        search.descend(1.03, 1e-3)
        return search.best
    levels = search.levels(k, window, 1)
    return None if levels is None else (levels.score(levels.most()), k, window)


def _serves(epsilon: float, delta: float) -> bool:
    """Whether floats can hold the problem, and its law has not too many levels."""
    in_range = epsilon > 0 and 1e-280 < delta < 1
    return in_range and _fewest_levels(epsilon, delta) <= MOST_LEVELS
