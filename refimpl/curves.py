r"""Hockey-stick curves of the SHARP edition: one contour integral for the mean, for N draws, and for both at once.

P = N(mu_1, c^2 C_1) x N(0, C_1)^N and Q = N(mu_2, c^2 C_2) x N(0, C_2)^N are the releases for two adjacent data sets that both
pass. (The mean's release alone has N = 0, that of the covariance no first factor.) All that is known of them is

- D = |C_2^{-1/2} (mu_1 - mu_2)|/c, at most ``move``;
- T = I - C_2^{1/2} C_1^{-1} C_2^{1/2}: its positive part has trace at most q (``change``), and its negative eigenvalues are
  -b/(1-b) with sum of the b at most q, so that their absolute values have sum at most q' = q/(1-q).

A curve bounds HS_e = sup_S P(S) - e^e Q(S) by functions of (e, D, q, N) only.

**The mean's factor.** Whiten Q and put y = z - nu, |nu| = D. The loss log dP/dQ is at most

    L = -tr T/2 + |nu|^2/2 + y.nu + y^T T y/2,

since log det(I - T) <= -tr T. For every value of the other factor's loss, E_Q (e^L t - e^e)_+ is convex in T. Drop from T_-
everything but its trace, which is worth at most q'/2: the maximum over {T_+ >= 0, tr T_+ <= q} is at T_+ = 0 or at an extreme
point q u u^T. Let u make the angle theta with nu; only theta in [0, pi/2] matters, and a reflection makes theta and -theta
alike. A unit vector between two others that are 2 eta apart has u u^T <= (a u_1 u_1^T + (1-a) u_2 u_2^T)/cos^2 eta for some a
in [0, 1]: so the angles (2i+1) eta with eta = pi/(4 M), i < M, together with their mirror images, bound every angle if the
quadratic coefficient is q/cos^2 eta; the trace stays q. All this holds under an expectation over the other factor, so the
maximum over angles is taken last. In one dimension T is a number in [-q', q], and the convex function has its maximum at an
end; nothing is dropped then.

**The mean alone.** Put K = e - D^2/2 - (q'-q)/2. Without draws the angle is known where K >= (3/2) q' (angle 0, and more than
T_+ = 0) and where K <= 0 (a right angle, or T_+ = 0), with q itself in the quadratic form: statement S16 of
``proofs_checks/SHARP.md``. The maximum over T is convex in e^e, so between the two it is at most the chord of e^e that joins
them; the grid above bounds it as well, and the smaller of both is the curve. So nearly every value is a closed form.

In |nu| the bound is increasing: with p(y) the density that L makes, it is the mass of p less the integral of
min(p(y), e^e phi(y + nu)). The minimum of two log-concave functions is log-concave in (y, nu), so its integral is log-concave
in nu (Prekopa); it is even, and falls along rays. For N > 0 this is integrated over the other factor.

**The factor of the draws.** HS_e of N draws increases in each abs(log a_i), a_i = eigenvalues of C_2^{-1} C_1, and moves up
if the larger of two t = 1 - 1/a > 0 takes from the smaller, or the larger of two b = 1 - a > 0: d HS/d log a_i is half of
E_P (X_i - N) 1{L > e}, X_i the chi-squares, and exchanging X_1 with X_2 gives the order of the derivatives. So one eigenvalue
1/(1-q) and one 1-q are the worst at every e (in one dimension one of the two). A convex function of the likelihood ratio is a
mixture of hockey-sticks and a linear function, so the worst pair is the worst under every such function: in particular under
t -> integral of (t dp - e^e dq)_+ with a fixed first factor. That is how the two factors are put together.

**The integral.** Every case is now a positive measure p against a probability q with

    M(s) = integral of p (dp/dq)^s = e^{(1+s) shift + s D^2/2 + s^2 D^2 (sin^2 + cos^2/v)/2} v^{-1/2}
           times, for each eigenvalue 1 + b of the draws, ((1+b)^s (1 - s b))^{-N/2},     v = 1 - (1+s) r,

r the quadratic coefficient (q/cos^2 eta, 0, or -q' in one dimension) and ``shift`` = (q' - q)/2, q'/2, or what is left of it
in one dimension. Inverting the Laplace transform of max(0, 1 - e^{-t}), which is 1/(s (s+1)),

    integral of (dp - e^e dq)_+ = (1/2 pi i) int F(s) ds,    F(s) = M(s) e^{-s e}/(s (s+1)),

over Re s = sigma with 0 < sigma < 1/b and v > 0.

**The enclosure.** The trapezoidal sum with step h along Re s = sigma differs from the integral by sum over m != 0 of Fourier
coefficients at 2 pi m/h (Poisson). Shifting the line by a to the right for m > 0, to the left for m < 0, bounds them by
e^{-2 pi |m| a/h} times (1/2 pi) int |F|; and |M(s)| <= M(Re s), |s (s+1)| >= |s|^2 make that M(s') e^{-s' e}/(2 s') at s' =
sigma +- a > 0. Along the line |M| falls as |Im s| grows: so do |v|^{-1/2}, |1 - s b|^{-N/2}, |e^{s^2}|, and the real part of
s^2/v = -s/r - (1-r)/r^2 + ((1-r)/r)^2/v, for r of either sign. So what is cut off beyond Im s = T is at most
|M e^{-s e}|/(pi T) there. Where the decay is too slow for a sum (few draws, or a tiny D) the line is bent to a hyperbola,
s(x) = sigma + alpha (cosh x - 1) + i beta sinh x, towards the side on which the linear part e^{-K s} of M(s) e^{-s e} falls,
and integrated by ``acb.integral``. |alpha| < beta, so it meets the real line at sigma only, and F vanishes between the two at
infinity.

**Both orders, every e.** The bounds q and D hold with the two data sets exchanged, and HS_e(P||Q) is
1 - e^e + e^e HS_{-e}(Q||P): for e < 0 the curve is 1 - e^e + e^e f(-e).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import acb, arb, fmpq
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

__all__ = [
    "ANGLES",
    "Case",
    "ball_of",
    "cases_of",
    "certified_hockey_stick",
    "curve",
    "hockey_stick",
    "hockey_sticks",
]

Floats = NDArray[np.float64]

ANGLES = 8
"""M of the angle certificate. With 8, eta is pi/32, as in a grid of 17 angles from 0 to pi/2 that holds both ends."""

PRECISION = 128
RELATIVE = 2.0**-40  # of what is cut off and of the step's error, to the value: far below the search's reserve of 1e-9
STEP = 0.08  # of the integral in floats
ANGLE_ZERO_FROM = Fraction(3, 2)
"""In units of q': the least K from which angle 0 is the worst."""

POINTS_AT_ONCE = 512  # of the integral in floats: so many stay in the processor's cache
MOST_NODES = 1500
MOST_EVALUATIONS = 1 << 16


@dataclass(frozen=True)
class Case:
    """One of the pairs whose maximum is the curve.

    Attributes
    ----------
    grows, shrinks
        Whether T_+ = q u u^T is there, and whether the trace of T_- is charged.
    bends
        Whether T_- keeps its quadratic form (one dimension only).
    turn, eta
        The angle of u to the move of the mean, and half the distance of angles, in units of pi.
    up, down
        Whether the draws have the eigenvalue 1/(1-q), and 1-q.
    """

    grows: bool = False
    shrinks: bool = False
    bends: bool = False
    turn: Fraction = Fraction(0)
    eta: Fraction = Fraction(0)
    up: bool = False
    down: bool = False


def cases_of(d: int, *, mean: bool, draws: bool, angles: int = ANGLES) -> tuple[Case, ...]:
    """The cases for dimension ``d``: of a release of the mean, of draws, or of both.

    Parameters
    ----------
    d
        Dimension; only whether it is 1 matters.
    mean, draws
        What is released; at least one of them.
    angles
        M of the module's docstring.

    Returns
    -------
    tuple of Case
        Their maximum is the curve.
    """
    if d == 1:
        rising, falling = Case(grows=mean, up=draws), Case(shrinks=mean, bends=mean, down=draws)
        flat = (Case(up=True), Case(down=True)) if mean and draws else ()
        return rising, falling, *flat
    if not mean:
        return (Case(up=True, down=True),)
    eta = Fraction(1, 4 * angles)
    turned = [Case(True, True, False, (2 * i + 1) * eta, eta, draws, draws) for i in range(angles)]
    return Case(shrinks=True, up=draws, down=draws), *turned


FLAT = Case(shrinks=True)
ALONG = Case(grows=True, shrinks=True)
ACROSS = Case(grows=True, shrinks=True, turn=Fraction(1, 2))
"""T_+ = 0, and q u u^T with u along the move of the mean, or across it; for one angle, so with q itself."""


def _knows_the_angle(samples: Any, cases: Sequence[Case]) -> bool:
    """Whether these are the cases of the mean alone in two or more dimensions."""
    return not np.any(samples) and any(case.turn for case in cases)


# In floats: nothing rests on these but the choice of a plan ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Family:
    """The coefficients of M for points (rows) and cases (columns)."""

    e: Floats
    move_squared: Floats
    samples: Floats
    shift: Floats
    quadratic: Floats
    sin_squared: Floats
    cos_squared: Floats
    up: Floats
    down: Floats

    def log_moment(self, s: Any) -> Any:
        """Log M(s) - s e for real or complex s of shape (..., points, cases)."""
        v = 1 - (1 + s) * self.quadratic
        turned = s * s * (self.sin_squared + self.cos_squared / v)
        value = (1 + s) * self.shift + self.move_squared / 2 * (s + turned) - np.log(v) / 2 - s * self.e
        for b in (self.up, self.down):
            if self.samples.any() and b.any():
                value = value - self.samples / 2 * (_excess(s * b, self.samples) + s * _excess(-b, self.samples))
        return value

    def slope(self, s: Floats) -> Floats:
        """Derivative of log F at real s."""
        v = 1 - (1 + s) * self.quadratic
        turned = 2 * s * self.sin_squared + self.cos_squared * (2 * s * v + s * s * self.quadratic) / v**2
        value = self.shift + self.move_squared / 2 * (1 + turned) + self.quadratic / v / 2 - self.e
        for b in (self.up, self.down):
            if self.samples.any() and b.any():
                value = value + self.samples / 2 * (s * b * b / (1 - s * b) - _excess(-b, self.samples))
        return np.asarray(value - 1 / s - 1 / (1 + s))

    def smooth(self) -> Floats:
        """D^2 times what of s^2 stands in the exponent without a denominator."""
        return np.asarray(self.move_squared * (self.sin_squared + self.cos_squared * (self.quadratic == 0)))

    def beyond(self) -> Floats:
        """K, such that e^{-K s} is the linear part of M(s) e^{-s e}."""
        value = (
            self.e - self.shift - self.move_squared / 2 + self.samples / 2 * (np.log1p(self.up) + np.log1p(self.down))
        )
        bent = self.quadratic != 0
        return np.asarray(value + self.move_squared * self.cos_squared / 2 * bent / np.where(bent, self.quadratic, 1))

    def end(self) -> Floats:
        """The first singularity on the right of 0, or infinity."""
        with np.errstate(divide="ignore"):
            ends = [
                np.where(self.quadratic > 0, 1 / self.quadratic - 1, np.inf),
                np.where(self.up > 0, 1 / self.up, np.inf),
            ]
        return np.minimum(*ends) * (1 - 1e-9)

    def saddle(self) -> Floats:
        """A point near the minimum of F on the right of 0, by bisection in the logarithm."""
        end = self.end()
        low, high = np.full(end.shape, -10.0), np.full(end.shape, 40.0)
        for _ in range(15):
            middle = (low + high) / 2
            odds = np.exp2(middle)
            falls = self.slope(odds / (1 + odds / end)) < 0
            low, high = np.where(falls, middle, low), np.where(falls, high, middle)
        odds = np.exp2(low)
        return np.asarray(odds / (1 + odds / end))


def _excess(z: Any, samples: Floats) -> Any:
    """log(1 - z) + z for real or complex arrays, so precisely that it can be multiplied by N."""
    size = np.abs(z)
    if samples.max() * size.max() < 1e5:
        return _log_of_rest(z) + z
    small = size < 0.1
    y = np.where(small, z, 0)
    series = np.zeros_like(y)
    for power in range(17, 1, -1):
        series = series * y - 1 / power
    return np.where(small, series * y * y, _log_of_rest(z) + z)


def _log_of_rest(z: Any) -> Any:
    """log(1 - z), its real part to full relative accuracy."""
    x, y = np.real(z), np.imag(z)
    logarithm = np.log1p(x * x + y * y - 2 * x) / 2
    return logarithm + 1j * np.arctan2(-y, 1 - x) if np.iscomplexobj(z) else logarithm


def _family(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[Case]) -> _Family:
    columns = [np.atleast_1d(np.asarray(v, dtype=float))[:, None] for v in (e, move, change, samples)]
    e, move, change, samples = np.broadcast_arrays(*columns)
    grows, shrinks, bends, up, down = (
        np.array([float(getattr(case, name)) for case in cases]) for name in ("grows", "shrinks", "bends", "up", "down")
    )
    turn = np.array([float(case.turn) for case in cases]) * math.pi
    eta = np.array([float(case.eta) for case in cases]) * math.pi
    spread = change / (1 - change)
    return _Family(
        e=e,
        move_squared=move * move,
        samples=samples,
        shift=(spread * shrinks - change * grows) / 2,
        quadratic=change * grows / np.cos(eta) ** 2 - spread * bends,
        sin_squared=np.sin(turn) ** 2,
        cos_squared=np.cos(turn) ** 2,
        up=spread * up,
        down=-change * down,
    )


def _family_part(family: _Family, rows: slice) -> _Family:
    """Some of the points."""
    parts = (getattr(family, name) for name in _Family.__dataclass_fields__)
    return _Family(*(part[rows] if part.ndim == 2 and len(part) > 1 else part for part in parts))


def _on_hyperbola(family: _Family) -> tuple[Floats, Floats]:
    """The integral and its derivative by e, along s(x) = sigma + alpha (cosh x - 1) + i beta sinh x.

    The bend helps where M decays slowly. Its slope 0.4 leaves the trapezoidal rule about as much room towards paths along which
    e^{-K s} grows as towards those along which e^{s^2} does.
    """
    sigma, beyond = family.saddle(), family.beyond()
    bounded = np.isinf(family.end()) & (family.smooth() == 0) & (beyond >= 0)  # the loss is nowhere above e
    beta = 0.7 * np.minimum(sigma, family.end() - sigma)
    bend = 0.4 * np.sign(beyond)
    total, slope = np.zeros(sigma.shape), np.zeros(sigma.shape)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):  # where the loss is bounded F has no saddle
        for block in range(9):
            x = ((np.arange(16) + 16 * block) * STEP)[:, None, None]
            s = sigma + beta * (bend * (np.cosh(x) - 1) + 1j * np.sinh(x))
            turned = beta * (bend * np.sinh(x) + 1j * np.cosh(x))
            values = np.exp(family.log_moment(s)) / (s * (s + 1)) * turned
            if block == 0:
                values[0] /= 2
            total += values.imag.sum(axis=0)
            slope -= (values * s).imag.sum(axis=0)
            if np.all(np.abs(values[-1]) <= 1e-16 * np.abs(total)):
                break
    return np.where(bounded, 0.0, total * STEP / math.pi), np.where(bounded, 0.0, slope * STEP / math.pi)


def _closed(e: Floats, move: Floats, shift: Floats, quadratic: Floats) -> tuple[Floats, Floats]:
    """Along the move, or without T_+, and the derivative.

    The loss is above e outside two roots, between them, or beyond one.
    """
    k = e - move * move / 2 - shift
    if not quadratic.any():
        return _beyond(k / move, e, move, np.ones_like(e)), -np.exp(e) * ndtr(-k / move - move)
    square = move * move + 2 * quadratic * k
    root = np.sqrt(np.maximum(square, 0))
    near, far = 2 * k / (move + root), (-move - root) / quadratic
    scale = np.sqrt(1 - quadratic)
    if quadratic.flat[0] > 0:
        value = _beyond(near, e, move, scale) + _beyond(-far, e, -move, scale)
        other = ndtr(-near - move) + ndtr(far + move)
        everything = np.exp(shift) / scale - np.exp(e), np.ones_like(e)
    else:
        value = _beyond(near, e, move, scale) - _beyond(far, e, move, scale)
        other = ndtr(-near - move) - ndtr(-far - move)
        everything = np.zeros_like(e), np.zeros_like(e)
    value, other = (np.where(square > 0, v, w) for v, w in zip((value, other), everything, strict=True))
    return value, -np.exp(e) * other


def _beyond(v: Floats, e: Floats, move: Floats, scale: Floats) -> Floats:
    """The integral of dp - e^e dq beyond a root v, where their densities agree: so that small differences keep their digits."""
    density = np.exp(e - (v + move) ** 2 / 2) / 2
    beyond = erfcx(np.maximum(v * scale, -30) / math.sqrt(2)) / scale - erfcx(np.maximum(v + move, -30) / math.sqrt(2))
    return np.asarray(density * beyond)


def hockey_sticks(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[Case]) -> tuple[Floats, Floats]:
    """The values of the single cases at e >= 0, in floats, and their derivatives: arrays of shape (points, cases).

    Parameters
    ----------
    e, move, change, samples
        e, D, q and N: numbers or arrays of one length.
    cases
        From :func:`cases_of`.
    """
    family = _family(e, move, change, samples, cases)
    if family.samples.any() or any(case.turn for case in cases):
        starts = range(0, max(len(family.e), 1), POINTS_AT_ONCE)
        found = [_on_hyperbola(_family_part(family, slice(i, i + POINTS_AT_ONCE))) for i in starts]
        return np.concatenate([value for value, _ in found]), np.concatenate([slope for _, slope in found])
    parts = np.broadcast_arrays(family.e, np.sqrt(family.move_squared), family.shift, family.quadratic)
    pairs = [_closed(*(part[:, j] for part in parts)) for j in range(len(cases))]
    return np.stack([value for value, _ in pairs], axis=1), np.stack([slope for _, slope in pairs], axis=1)


def curve(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[Case]) -> tuple[Floats, Floats]:
    """The curve at e >= 0, in floats, and its derivative: arrays of one dimension. Arguments as in :func:`hockey_sticks`."""
    if not _knows_the_angle(samples, cases):
        return _largest(e, move, change, samples, cases)
    columns = [np.atleast_1d(np.asarray(v, dtype=float)) for v in (e, move, change)]
    e, move, change = (np.array(v) for v in np.broadcast_arrays(*columns))
    values, slopes = _largest(e, move, change, 0, (ALONG,))
    spread = change / (1 - change)
    across_until = move * move / 2 + (spread - change) / 2
    other = np.flatnonzero(e < across_until + float(ANGLE_ZERO_FROM) * spread)
    if other.size:
        there = e[other], move[other], change[other], across_until[other]
        values[other], slopes[other] = _before_angle_zero(*there, cases)
    return values, slopes


def _before_angle_zero(
    e: Floats, move: Floats, change: Floats, start: Floats, cases: Sequence[Case]
) -> tuple[Floats, Floats]:
    """Up to ``start`` the larger of a right angle and T_+ = 0; then the chord or the grid."""
    end = start + float(ANGLE_ZERO_FROM) * change / (1 - change)
    first, slope = _largest(np.minimum(e, start), move, change, 0, (FLAT, ACROSS))
    last, _ = _largest(end, move, change, 0, (ALONG,))
    steepness = (last - first) / (np.exp(end) - np.exp(start))
    chord = first + steepness * (np.exp(e) - np.exp(start))
    grid, grid_slope = _largest(e, move, change, 0, cases)
    between = np.where(chord <= grid, chord, grid), np.where(chord <= grid, steepness * np.exp(e), grid_slope)
    return np.where(e > start, between[0], first), np.where(e > start, between[1], slope)


def _largest(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[Case]) -> tuple[Floats, Floats]:
    values, slopes = hockey_sticks(e, move, change, samples, cases)
    best = values.argmax(axis=1)[:, None]
    return np.take_along_axis(values, best, axis=1)[:, 0], np.take_along_axis(slopes, best, axis=1)[:, 0]


def hockey_stick(e: Any, move: Any, change: Any, samples: Any, cases: Sequence[Case]) -> Floats:
    """The curve in floats, at every real e. Arguments as in :func:`hockey_sticks`; the result has one dimension."""
    e = np.atleast_1d(np.asarray(e, dtype=float))
    largest, _ = curve(np.abs(e), move, change, samples, cases)
    return np.asarray(np.where(e < 0, -np.expm1(np.minimum(e, 0)) + np.exp(np.minimum(e, 0)) * largest, largest))


# In enclosures: what a plan is verified with -------------------------------------------------------------------------


def ball_of(value: Fraction | int) -> arb:
    """The ball of a rational at the working precision."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def _vanishes(ball: arb) -> bool:
    """Whether a ball is exactly 0: where that is open a term with it must not be left out."""
    return bool(ball == 0)


@dataclass(frozen=True, eq=False)
class _Line:
    """One case in balls, and the line Re s = sigma, with the step and the two shifts, all exact, that are tried for it."""

    e: arb
    move_squared: arb
    samples: int
    shift: arb
    quadratic: arb
    sin_squared: arb
    cos_squared: arb
    spectrum: tuple[arb, ...]
    sigma: arb
    step: arb
    left: arb
    right: arb

    def log_moment(self, s: acb) -> acb:
        """Log M(s) - s e."""
        v = 1 - (1 + s) * self.quadratic
        value = (1 + s) * self.shift - s * self.e
        if not _vanishes(self.move_squared):
            value += self.move_squared / 2 * (s + s * s * (self.sin_squared + self.cos_squared / v))
        if not _vanishes(self.quadratic):
            value -= v.log() / 2
        for b in self.spectrum:
            value -= ((1 - s * b).log() + s * b.log1p()) * self.samples / 2
        return value

    def is_usable(self) -> bool:
        """Whether the strip of the shifts holds no singularity, for certain."""
        right = self.sigma + self.right
        regular = all(1 - right * b > 0 for b in self.spectrum) and 1 - (1 + right) * self.quadratic > 0
        return bool(regular and self.step > 0 and self.left > 0 and self.right > 0 and self.sigma - self.left > 0)

    def modulus(self, s: acb) -> arb:
        """|M(s) e^{-s e}|."""
        return self.log_moment(s).real.exp()

    def aliasing(self) -> arb:
        """Bound on the difference between the trapezoidal sum and the integral."""
        total = arb(0)
        for s, a in ((self.sigma - self.left, self.left), (self.sigma + self.right, self.right)):
            total += self.modulus(acb(s)) / (2 * s) / (2 * arb.pi() * a / self.step).expm1()
        return total

    def cut_off(self, log_value: acb, height: arb) -> arb:
        """Bound on what lies beyond Im s = height, log_value = log(M(s) e^{-s e}) there; sum and integral alike."""
        return log_value.real.exp() / (arb.pi() * height)

    def sum(self) -> arb | None:
        """Upper bound on the integral by the trapezoidal sum, or None if that needs too many nodes."""
        last = self.step * MOST_NODES
        top = self.modulus(acb(self.sigma))
        if not self.cut_off(self.log_moment(acb(self.sigma, last)), last) < top * RELATIVE:
            return None
        total = top / (self.sigma * (self.sigma + 1)) / 2
        for j in range(1, MOST_NODES + 1):
            s = acb(self.sigma, self.step * j)
            log_value = self.log_moment(s)
            total += (log_value.exp() / (s * (s + 1))).real
            if j % 4 == 0 and (tail := self.cut_off(log_value, s.imag)) < abs(total) * self.step * RELATIVE:
                return total * self.step / arb.pi() + tail + self.aliasing()
        return None

    def beyond(self) -> arb:
        """K, such that e^{-K s} is the linear part of M(s) e^{-s e}."""
        value = self.e - self.shift - self.move_squared / 2
        if not _vanishes(self.quadratic):
            value += self.move_squared * self.cos_squared / self.quadratic / 2
        return value + sum((b.log1p() for b in self.spectrum), arb(0)) * self.samples / 2

    def smooth(self) -> arb:
        """D^2 times what of s^2 stands in the exponent without a denominator."""
        return self.move_squared * (
            self.sin_squared + self.cos_squared if _vanishes(self.quadratic) else self.sin_squared
        )

    def is_bounded(self) -> bool:
        """Whether the loss is nowhere above e: no singularity on the right, no e^{s^2}, and K >= 0."""
        no_end = all(b < 0 for b in self.spectrum) and (_vanishes(self.quadratic) or self.quadratic < 0)
        return bool(no_end and _vanishes(self.smooth()) and self.beyond() >= 0)

    def integral(self) -> arb:
        """Upper bound on the integral, over a hyperbola, by adaptive Gauss-Legendre rules with enclosed remainders."""
        k, beta = self.beyond(), min(self.left, self.right, key=float)
        alpha = beta / 4 if k > 0 else -beta / 4 if k < 0 else arb(0)
        goal = self.modulus(acb(self.sigma)) / (self.sigma * (self.sigma + 1)) * beta * RELATIVE
        end = 2
        while (tail := self.tail(k, alpha, beta, end)) is None or not tail < goal:
            end += 1
            if end > MOST_NODES:
                return arb("inf")

        def integrand(x: acb, _analytic: bool) -> acb:
            sinh, cosh = x.sinh_cosh()
            s = self.sigma + alpha * (cosh - 1) + acb(0, 1) * beta * sinh
            for u in (1 - (1 + s) * self.quadratic, *(1 - s * b for b in self.spectrum)):
                if not (u.real > 0 or u.imag > 0 or u.imag < 0):
                    return acb("nan")  # on a cut, perhaps
            value: acb = self.log_moment(s).exp() / (s * (s + 1)) * (alpha * sinh + acb(0, 1) * beta * cosh)
            return value

        found = acb.integral(integrand, 0, end, rel_tol=arb(RELATIVE), abs_tol=goal, eval_limit=MOST_EVALUATIONS)
        return found.imag / arb.pi() + tail

    def tail(self, k: arb, alpha: arb, beta: arb, end: int) -> arb | None:
        """Bound on the integral of |F| over the hyperbola beyond x = end, over pi; None where its conditions do not hold.

        There |1 - s b| >= |b Im s| >= |b| beta sinh x, likewise |v|, Re 1/v <= 1/|v|, |s (s+1)| >= (beta sinh x)^2,
        e^{-K Re s} does not grow because K alpha >= 0, and Re s^2 is concave in cosh x.
        """
        c, sinh = arb(end).cosh(), arb(end).sinh()
        r = self.sigma - alpha
        if not (alpha * (r + alpha * c) <= beta**2 * c and k * alpha >= 0):
            return None
        square = (r + alpha * c) ** 2 - beta**2 * sinh**2
        exponent = self.shift - k * (r + alpha * c) + self.smooth() * square / 2
        if not _vanishes(self.quadratic):
            q, distance = self.quadratic, abs(self.quadratic) * beta * sinh
            exponent += self.move_squared * self.cos_squared / 2 * ((1 - q) / q) * ((1 - q) / q / distance - 1 / q)
            exponent -= distance.log() / 2
        for b in self.spectrum:
            exponent -= (abs(b) * beta * sinh).log() * self.samples / 2
        return exponent.exp() * (abs(alpha) + beta) / (beta**2 * sinh * arb.pi())


def _lines(
    e: Sequence[arb], move: Sequence[arb], change: Sequence[arb], samples: int, cases: Sequence[Case]
) -> list[list[_Line]]:
    """One line for each point and case; where it runs and its step come from floats, and are exact from there on."""
    if all(_is_closed(case, samples) for case in cases):
        sigma = step = left = right = np.zeros((len(e), len(cases)))  # nothing is integrated
    else:
        family = _family([float(v) for v in e], [float(v) for v in move], [float(v) for v in change], samples, cases)
        with np.errstate(all="ignore"):  # where r >= 1 there is no line, and its place is not a number
            sigma, step, left, right = _places(family)
    return [
        [
            _line(e[i], move[i], change[i], samples, case, [arb(float(v[i, j])) for v in (sigma, step, left, right)])
            for j, case in enumerate(cases)
        ]
        for i in range(len(e))
    ]


def _places(family: _Family) -> tuple[Floats, Floats, Floats, Floats]:
    """Sigma, the step and both shifts: what makes the step's error small in floats, to be checked in balls."""
    sigma, end = family.saddle(), family.end()

    def surplus(s: Floats) -> Floats:
        """log(M(s) e^{-s e}/s) less the logarithm of F at the saddle, and what is asked of the error."""
        there = family.log_moment(s) - np.log(s)
        return np.asarray(there - family.log_moment(sigma) + np.log(sigma * (sigma + 1)) - math.log(RELATIVE) + 6)

    left = 0.85 * sigma
    step = 2 * math.pi * left / np.maximum(surplus(sigma - left), 1)
    shifts = np.stack([np.minimum(sigma * 2.0**j, 0.9 * (end - sigma)) for j in range(-3, 4)])
    steps = np.stack([2 * math.pi * a / np.maximum(surplus(sigma + a), 1) for a in shifts])
    best = steps.argmax(axis=0)[None]
    right = np.take_along_axis(shifts, best, axis=0)[0]
    return sigma, np.minimum(step, np.take_along_axis(steps, best, axis=0)[0]), left, right


def _line(e: arb, move: arb, change: arb, samples: int, case: Case, exact: Sequence[arb]) -> _Line:
    spread = change / (1 - change)
    cos_squared = _cosine(case.turn) ** 2
    quadratic = change / _cosine(case.eta) ** 2 if case.grows else -spread if case.bends else arb(0)
    shift = ((spread if case.shrinks else 0) - (change if case.grows else arb(0))) / 2
    spectrum = tuple(b for b, there in ((spread, case.up), (-change, case.down)) if there and samples)
    return _Line(e, move * move, samples, shift, quadratic, 1 - cos_squared, cos_squared, spectrum, *exact)


def _cosine(turn: Fraction) -> arb:
    return arb.cos_pi(ball_of(turn))


def _is_closed(case: Case, samples: int) -> bool:
    return case.turn == 0 and not samples


def _closed_form(line: _Line) -> arb:
    """As in floats: the loss is above e outside two roots, between them, or beyond one."""
    move, r = line.move_squared.sqrt(), line.quadratic
    k = line.e - line.move_squared / 2 - line.shift
    if _vanishes(r):
        return line.shift.exp() * _normal(-k / move) - line.e.exp() * _normal(-k / move - move)
    square = line.move_squared + 2 * r * k
    mass = line.shift.exp() / (1 - r).sqrt()
    if not square > 0:
        # all of the line, or nothing; where the sign of the discriminant is open the larger of the two still bounds
        return mass - line.e.exp() if r > 0 and square < 0 else arb(0) if square < 0 else mass
    near, far, scale = 2 * k / (move + square.sqrt()), (-move - square.sqrt()) / r, (1 - r).sqrt()
    if r > 0:
        return mass * (_normal(-near * scale) + _normal(far * scale)) - line.e.exp() * (
            _normal(-near - move) + _normal(far + move)
        )
    return mass * (_normal(-near * scale) - _normal(-far * scale)) - line.e.exp() * (
        _normal(-near - move) - _normal(-far - move)
    )


def _normal(x: arb) -> arb:
    """The distribution function of the standard normal law."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _bound(line: _Line, case: Case) -> arb:
    if _is_closed(case, line.samples):
        return _closed_form(line)
    if line.is_bounded():
        return arb(0)
    if not line.is_usable():
        return arb("inf")
    found = line.sum()
    return line.integral() if found is None else found


def certified_hockey_stick(
    e: Sequence[arb], move: Sequence[arb], change: Sequence[arb], samples: int, cases: Sequence[Case]
) -> list[arb]:
    """Balls whose upper ends bound the curve at real points e, for certain.

    Parameters
    ----------
    e, move, change
        Balls e, D and q, one for each point.
    samples
        N.
    cases
        From :func:`cases_of`.

    Returns
    -------
    list of arb
        For each point a ball whose upper end is at least HS_e of every pair that the arguments describe, in both orders. It
        is infinite where that could not be shown.
    """
    # for e < 0 the exchanged pair; either form is valid on both sides of 0, so its ball may hold 0
    signs = [-1 if v.mid() < 0 else 1 for v in e]
    points = [s * v for s, v in zip(signs, e, strict=True)]
    if _knows_the_angle(samples, cases):
        largest = [_of_the_mean(*point, cases) for point in zip(points, move, change, strict=True)]
    else:
        largest = _maxima(points, move, change, samples, cases)
    return [1 - v.exp() + v.exp() * f if s < 0 else f for s, v, f in zip(signs, e, largest, strict=True)]


def _of_the_mean(e: arb, move: arb, change: arb, cases: Sequence[Case]) -> arb:
    """The curve of the mean alone, by what is known of the angle: where the balls leave that open, by the grid."""
    if not change < 1:
        return arb("inf")
    spread = change / (1 - change)
    middle = move * move / 2 + (spread - change) / 2  # K = 0
    end = middle + spread * ball_of(ANGLE_ZERO_FROM)
    start = middle - spread * RELATIVE  # a bit lower, where the sign of K is certain

    def worst(at: arb, some: Sequence[Case]) -> arb:
        return _maxima([at], [move], [change], 0, some)[0]

    if e >= end:
        return worst(e, (ALONG,))
    if e <= start:
        return worst(e, (FLAT, ACROSS))
    grid = worst(e, cases)
    if not start < e < end:
        return grid
    share = (e.exp() - start.exp()) / (end.exp() - start.exp())
    chord = (1 - share) * worst(start, (FLAT, ACROSS)) + share * worst(end, (ALONG,))
    return min((bound for bound in (grid, chord) if bound.is_finite()), key=float, default=arb("inf"))


def _maxima(
    e: Sequence[arb], move: Sequence[arb], change: Sequence[arb], samples: int, cases: Sequence[Case]
) -> list[arb]:
    """For each point the largest of the cases."""
    lines = _lines(e, move, change, samples, cases)
    return [_maximum([_bound(line, case) for line, case in zip(row, cases, strict=True)]) for row in lines]


def _maximum(balls: Sequence[arb]) -> arb:
    result = balls[0]
    for ball in balls[1:]:
        result = result.max(ball)
    return result
