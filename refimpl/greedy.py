"""The greedy law of the SHARP test and the search for k, W and the noise, in floats. Nothing is trusted that is found here.

**The law.** The conditions (a) and (b) of ``refimpl.plan`` allow, for given p_z, an interval of p_{z+1}; the least law takes
its lower end every time, and k steps suffice for a given noise if p_{k-1} <= delta. The walk needs a curve f_z at a point e
that it finds on its way. So each curve is replaced by that of two normal laws a ``width`` apart, tilted, which has the value
and the slope of the true one at the point where the walk used it last; a few rounds of walking and of comparing with the true
curves, all points at once, make the two agree to the last digits. Both steps, (a) in e and (b) in u = 1 - p, are solved by
Newton's method.

**The search.** For each (k, W) the least noise is the root of log(p_{k-1}/delta), continued beyond where the walk ends. Over
(k, W) it is flat near its minimum: a grid in k, then a pattern search with shrinking steps. During the search a single case
of the curve stands for all, and where epsilon is small several steps of the law are taken as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from refimpl.curves import Case, cases_of, hockey_sticks

__all__ = ["TASKS", "Found", "least_rows", "search"]

Floats = NDArray[np.float64]

TASKS = ("mean", "covariance", "gaussian")
RESERVE = 1e-9
"""The law is made for delta (1 - RESERVE): room for the rounding of floats."""

ROUNDING = 1e-15
"""Of a u that (b) allows: u' - e^eps u is compared with a delta that may be many orders below u."""

MARGIN = 0.02
"""By which the law ends early at the least n with all noise allowed: nearer to it a walk need not settle."""

MOST_LEVELS = 1 << 14
MOST_NOISE = 20.0  # log of the noise over that of a mechanism without a test, which is the least conceivable
FAR = 600.0  # in e: what is beyond is 0, and e^e must have room
COARSE_STEPS = 160  # of the law while searching; a longer one is walked in strides


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
        if e < 0:
            return 1.0 if e < -FAR else -math.expm1(e) + math.exp(e) * self.value(-e)
        return self.positive(e)[0]

    def slope(self, e: float) -> float:
        """Its derivative."""
        if e < 0:
            return -0.0 if e < -FAR else math.exp(e) * (self.value(-e) - 1 - self.slope(-e))
        return self.positive(e)[1]

    def positive(self, e: float) -> tuple[float, float]:
        """Curve and derivative at e >= 0."""
        if e > FAR:
            return 0.0, 0.0
        x = e - self.at
        yielding = 1 + 2 * abs(x) / self.width
        factor = math.exp(self.tilt * x / yielding)
        value = _price(self.width, e) * factor
        flat = -math.exp(e) * math.erfc((e / self.width + self.width / 2) / math.sqrt(2)) / 2
        return value, flat * factor + self.tilt / yielding**2 * value

    def loss_at(self, target: float, e: float) -> float:
        """The e at which the curve has the value ``target``, by Newton's method for its logarithm from e."""
        for _ in range(60):
            value = self.value(e)
            slope = self.slope(e)
            if value < 1e-290 or slope >= 0:
                e /= 2
                continue
            step = math.log(target / value) * value / slope
            e += max(-1.0, min(1.0, step)) if abs(e) < 1 else step
            if abs(step) < 1e-14 * (1 + abs(e)):
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
    """u_z and p_z at the points of a walk, log(p_{k-1}/delta), and the e at which its curves were used.

    ``settled`` tells whether the models had the values of the true curves there.
    """

    u: list[float]
    p: list[float]
    gap: float
    points: Floats
    settled: bool = False


def _gain_step(u: float, epsilon: float, delta: float, model: _Model, stride: int) -> float:
    """The largest u' that (b) allows, 1 or more if all."""
    growth = math.exp(epsilon)
    if growth * u + delta >= 1:
        return 1.0
    found = growth * u + delta
    for _ in range(30):
        e = epsilon + max(math.log1p(-u) - math.log1p(-found), 0.0)
        value, slope = model.positive(e)
        step = (found - growth * u - delta + (1 - found) * value) / max(1 - value + slope, 0.05)
        found = min(found - step, (1 + found) / 2)
        if found <= growth * u or abs(step) <= 1e-15 * found:
            break
    excess = max(found - growth * u, 0.0)  # up to growth * u (b) follows from (a)
    steps = math.exp(epsilon * stride) * u + excess * math.expm1(epsilon * stride) / math.expm1(epsilon)
    return steps * (1 - ROUNDING)


def _walk(epsilon: float, delta: float, models: Sequence[_Model], sizes: Sequence[int]) -> _Walk:
    """The greedy law with models of the curves, first those for (a), then those for (b).

    The gap is infinite where the law comes to a halt.
    """
    u, p, passed, halted = [0.0], [1.0], 0, False
    points = np.full(2 * len(sizes), epsilon)
    e = epsilon / 2
    for i, stride in enumerate(sizes):
        here = p[-1]
        if here <= delta:
            passed += stride
            continue
        e = models[i].loss_at(delta / here, e)
        u_b = _gain_step(u[-1], epsilon, delta, models[i + len(sizes)], stride)
        if e >= epsilon or u_b <= u[-1]:
            halted = True
            break
        drop = (epsilon - e) * stride
        u_a = u[-1] - here * math.expm1(-drop)
        if u_a <= u_b or u_b >= 1:
            u.append(u_a)
            p.append(here * math.exp(-drop))
        else:
            u.append(u_b)
            p.append(1 - u_b)
            drop = math.log(here / p[-1]) if here < 0.5 else math.log1p(-u[-2]) - math.log1p(-u_b)
        points[i], points[i + len(sizes)] = epsilon - drop / stride, epsilon + drop / stride
    gap = math.inf if halted else math.log(p[-1] / delta) - passed * epsilon
    return _Walk(u, p, gap, points)


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

    def curves(self, noise: tuple[float, float], cases: Sequence[Case]) -> tuple[Floats, Floats]:
        """All cases of f_z where the last walk used it, and their slopes."""
        moves, changes = np.tile(self.move, 2) / noise[0], np.tile(self.change, 2)
        return hockey_sticks(np.abs(self.points), moves, changes, noise[1], cases)

    def walk(self, noise: tuple[float, float], cases: Sequence[Case], exactness: float) -> _Walk:
        """The walk at a noise, compared with the true curves until its gap settles."""
        rows, last = np.arange(len(self.points)), math.inf
        for again in range(16):
            values, slopes = self.curves(noise, cases)
            best = values.argmax(axis=1)
            self.widths, tilts, places = _models(self.points, values[rows, best], slopes[rows, best], self.widths)
            models = [
                _Model(*three) for three in zip(self.widths.tolist(), tilts.tolist(), places.tolist(), strict=True)
            ]
            walk = _walk(self.epsilon, self.delta, models, self.sizes)
            moved = float(np.abs(walk.points - self.points).max())
            self.points = walk.points
            if abs(walk.gap - last) <= exactness and moved <= exactness * self.epsilon:
                return replace(walk, settled=True)
            if again > 2 and walk.gap == last == math.inf:
                break
            last = walk.gap
        return walk

    def least(self, cases: Sequence[Case], start: float, tolerance: float, step: float) -> float | None:
        """The least x at which the walk ends in time, from above to within the tolerance; None if there is none."""

        def gap(x: float) -> float:
            return self.walk(self.noise(x), cases, 30 * tolerance).gap

        low, high = -math.inf, math.inf
        x, at_low, at_high = min(start, self.most()), math.inf, 0.0
        while high - low > 1e200:
            value = gap(x)
            if value > 0:
                if x >= self.most():
                    return None
                low, at_low, x = x, value, min(x + step, self.most())
            else:
                high, at_high, x = x, value, x - step
                if x < -MOST_NOISE:
                    return high
            step *= 3
        while high - low > tolerance:
            x = (low + high) / 2
            if math.isfinite(at_low):
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

    def __init__(self, task: str, n: int, d: int, budget: tuple[float, float, float]) -> None:
        self.task, self.n, self.budget = task, n, budget
        self.all_cases = cases_of(d, mean=task != "covariance", draws=task != "mean")
        self.one_case = self.all_cases[1:2] if d > 1 and task != "covariance" else self.all_cases
        self.best: tuple[float, int, int] | None = None
        self.seen: set[tuple[int, int, float]] = set()

    def levels(self, k: int, window: int, stride: int) -> _Levels | None:
        """The walks for (k, W), or None if the gate is closed."""
        h = self.n / self.budget[2]
        if k < 2 or window < 1 or h - (k + window - 1) - (k - 1) * (1 - 1 / window) <= 1e-9 * h:
            return None
        if _changes(h, k, window, np.array(k - 1.0), np.array(k - 1.0)) > 0.98:
            return None
        return _Levels(self.task, self.n, self.budget, k, window, stride)

    def attempt(self, k: int, window: int, tolerance: float) -> bool:
        """Whether (k, W) beats the best so far by more than the tolerance; it then becomes the best."""
        if (k, window, tolerance) in self.seen:
            return False
        self.seen.add((k, window, tolerance))
        levels = self.levels(k, window, 1 + k // COARSE_STEPS)
        if levels is None:
            return False
        goal = levels.most() if self.best is None else levels.x_of(self.best[0] - tolerance)
        if goal < -MOST_NOISE or levels.walk(levels.noise(goal), self.one_case, 0.1).gap > 0:
            return False
        x = levels.least(self.one_case, min(goal, 0.2), tolerance, 20 * tolerance)
        if x is None:
            return False
        self.best = levels.score(x), k, window
        return True

    def run(self) -> tuple[float, int, int] | None:
        """The least score found, with its k and W, or None."""
        epsilon, delta, lambda_0 = self.budget
        share = 0.5 if self.task == "covariance" else 0.65
        k, misses = _fewest_levels(epsilon, delta), 0
        while k <= min(self.n / lambda_0 / 2 + 1, MOST_LEVELS) and misses < 3:
            better = self.attempt(k, max(1, round(share * _most_window(self.n, lambda_0, k))), 1e-2)
            misses = misses + 1 if self.best and not better else 0
            k = max(k + 1, round(k * 1.3))
        if self.best is not None:
            for factor, tolerance in ((1.15, 3e-3), (1.07, 1e-3), (1.03, 2e-4)):
                self.descend(factor, tolerance)
        return self.best

    def descend(self, factor: float, tolerance: float) -> None:
        """Steps by one factor in k or in the window as long as they help."""
        helped = True
        while helped:
            assert self.best is not None, "the grid found a first pair"
            _, k, window = self.best
            up, down = max(k + 1, round(k * factor)), min(k - 1, round(k / factor))
            helped = any([self.attempt(up, window, tolerance), self.attempt(down, window, tolerance)])
            _, k, window = self.best
            most = _most_window(self.n, self.budget[2], k)
            wide = min(most, max(window + 1, round(window * factor**2)))
            narrow = max(1, min(window - 1, round(window / factor**2)))
            helped = any([self.attempt(k, wide, tolerance), self.attempt(k, narrow, tolerance)]) or helped


def _fewest_levels(epsilon: float, delta: float) -> int:
    """About how many levels the law needs when the release costs nothing, and a little less."""
    if delta >= 0.25:
        return 2
    rising = math.log1p(math.expm1(min(epsilon, 30.0)) / (2 * delta)) / epsilon
    return max(2, math.floor(0.9 * (rising + math.log(1 / (2 * delta)) / epsilon)))


# The least number of rows --------------------------------------------------------------------------------------------


class _Rows:
    """A pattern search for the least n at which some (k, share of the largest window) has a law with all the noise it likes."""

    def __init__(self, task: str, d: int, budget: tuple[float, float, float]) -> None:
        self.task, self.d, self.budget = task, d, budget
        self.best: tuple[int, int, int] | None = None
        self.seen: set[tuple[int, float]] = set()
        self.share = 0.6

    def admits(self, n: int, k: int, share: float, *, fine: bool = False) -> int | None:
        """The window of n rows if the law ends there, else None. Where all noise is allowed every angle is alike."""
        search = _Search(self.task, n, self.d, self.budget)
        window = max(1, round(share * _most_window(n, self.budget[2], k)))
        levels = search.levels(k, window, 1 if fine else 1 + k // COARSE_STEPS)
        if levels is None or levels.most() < -MOST_NOISE:
            return None
        walk = levels.walk(levels.noise(levels.most()), search.one_case, 1e-6 if fine else 0.01)
        return window if walk.gap <= 0 else None

    def least(self, k: int, share: float, low: int, high: int, *, fine: bool = False) -> int:
        """The least n in (low, high] for (k, share), nearly; high admits it, low does not."""
        while high - low > max(1, high >> (14 if fine else 12)):
            middle = (low + high) // 2
            low, high = (low, middle) if self.admits(middle, k, share, fine=fine) else (middle, high)
        return high

    def attempt(self, k: int, share: float) -> bool:
        """Whether (k, share) needs fewer rows than the best so far, which it then becomes."""
        if (k, share) in self.seen or k < 2 or not 0 < share <= 1:
            return False
        self.seen.add((k, share))
        low = math.floor(self.budget[2] * (2 * k - 2))
        most = low * 64
        high = 2 * low if self.best is None else self.best[0] - 1 - self.best[0] // 2048
        while not self.admits(high, k, share):
            if self.best is not None or high > most:
                return False
            low, high = high, 2 * high
        self.best, self.share = (self.least(k, share, low, high), k, 0), share
        return True

    def run(self) -> tuple[int, int, int] | None:
        """(n, k, W), or None if no k up to the limit serves."""
        k, misses = _fewest_levels(*self.budget[:2]), 0
        while k <= MOST_LEVELS and misses < 4:
            better = self.attempt(k, self.share)
            misses = misses + 1 if self.best and not better else 0
            k = max(k + 1, round(k * 1.15))
        if self.best is None:
            return None
        for factor in (1.1, 1.04, 1.015):
            helped = True
            while helped:
                k, share = self.best[1], self.share
                step = max(1, round(k * (factor - 1)))
                helped = any([self.attempt(k + step, share), self.attempt(k - step, share)])
                k, share = self.best[1], self.share
                helped = any([self.attempt(k, share * factor), self.attempt(k, share / factor)]) or helped
        return self.settled()

    def settled(self) -> tuple[int, int, int] | None:
        """The least n of the best (k, share) with every step of the law, and with a plan."""
        assert self.best is not None, "a first pair was found"
        (n, k, _), share = self.best, self.share
        low, high = n - 1 - n // 256, n + n // 256
        while self.admits(low, k, share, fine=True):
            low, high = low - 1 - n // 256, low
        while not self.admits(high, k, share, fine=True):
            low, high = high, high + 1 + n // 64
            if high > 2 * n:
                return None
        found = self.least(k, share, low, high, fine=True)
        for _ in range(64):
            window = self.admits(found, k, share, fine=True)
            search = _Search(self.task, found, self.d, self.budget)
            levels = None if window is None else search.levels(k, window, 1)
            if levels and window:
                walk = levels.walk(levels.noise(levels.most()), search.all_cases, 1e-9)
                if walk.settled and walk.gap < -MARGIN:
                    return found, k, window
            found += 1 + n // 4096
        return None


@lru_cache(maxsize=256)
def least_rows(task: str, d: int, epsilon: float, delta: float, lambda_0: float) -> tuple[int, int, int] | None:
    """The least n that has a plan, as far as the search finds, with its k and W; None if the problem is not served.

    Parameters
    ----------
    task, d, epsilon, delta, lambda_0
        As for :func:`search`.
    """
    if not _serves(epsilon, delta, lambda_0):
        return None
    return _Rows(task, min(d, 2), (epsilon, delta * (1 - RESERVE), lambda_0)).run()


# From (k, W) to a plan -----------------------------------------------------------------------------------------------


def _binding(levels: _Levels, noise: tuple[float, float], cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases that are the largest where the last walk used the curves, or nearly so."""
    values, _ = levels.curves(noise, cases)
    near = (values >= values.max(axis=1, keepdims=True) * (1 - 1e-8)).any(axis=0)
    return tuple(case for case, there in zip(cases, near, strict=True) if there)


def _finished(search: _Search, k: int, window: int, start: float) -> Found | None:
    """The plan of (k, W): the noise to seven digits, rounded, and its law, with every case of the curve."""
    levels = search.levels(k, window, 1)
    if levels is None:
        return None
    levels.walk(levels.noise(start), search.one_case, 0.01)
    cases = _binding(levels, levels.noise(start), search.all_cases)
    x = levels.least(cases, start, 1e-7, 2e-4)
    return None if x is None else _rounded(levels, search, x)


def _rounded(levels: _Levels, search: _Search, least: float) -> Found | None:
    """The plan at the least x or a little above, where the law with whole N ends and its walk settles.

    Just above the least n it can go to and fro between two ways, and needs more noise than the least to settle.
    """
    x = least
    for shift in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0):
        c, samples = levels.noise(x)
        whole = math.floor(samples)
        if search.task != "mean" and whole < 1:
            return None
        walk = levels.walk((c, float(whole)), search.all_cases, 1e-10)
        if walk.settled and walk.gap <= 0:
            scale = None if search.task == "covariance" else c
            draws = None if search.task == "mean" else whole
            return Found(levels.k, levels.window, _exact_law(walk, levels.k), scale, draws)
        x = min(least + shift, levels.most())
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
    if not (_serves(epsilon, delta, lambda_0) and n >= 2):
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
    if search.attempt(k, window, 1e-3):
        search.descend(1.03, 1e-3)
        return search.best
    levels = search.levels(k, window, 1)
    return None if levels is None else (levels.score(levels.most()), k, window)


def _serves(epsilon: float, delta: float, lambda_0: float) -> bool:
    """Whether floats can hold the problem, and its law has not too many levels."""
    in_range = epsilon > 0 and 1e-280 < delta < 1 and lambda_0 >= 1
    return in_range and _fewest_levels(epsilon, delta) <= MOST_LEVELS
