r"""The exact hockey-stick divergence of two Gaussians, and of N-fold products of them, as a certified enclosure.

For P = N(mu_1, c^2 Sigma_1), Q = N(mu_2, c^2 Sigma_2) and the privacy loss L = log dP/dQ, with N draws of each,

    HS_eps(P||Q) = sup_S P(S) - e^eps Q(S) = E_P max(0, 1 - e^{eps - L}).

**The loss.** Let 1 + b_j be the eigenvalues of Sigma_1 Sigma_2^{-1}, m_j their multiplicities, and w_j the squared length of
the part of Sigma_2^{-1/2} (mu_1 - mu_2)/c in the eigenspace. Simultaneous diagonalisation makes L a quadratic form in
independent normals; one Gaussian integral for each gives, for every s with 1 - s b_j > 0 for all j,

    M(s) = E_P e^{sL},
    log M(s) = (N/2) sum_j [-m_j (s log(1 + b_j) + log(1 - s b_j)) + w_j s (s+1)/(1 - s b_j)].

The b_j are the roots of a rational polynomial, the characteristic one of Sigma_1 Sigma_2^{-1} - I: its zeros at 0 are split
off exactly, the others enclosed. The w_j are interpolated from rational moments; w_0, that of b = 0, is rational itself.
So the case distinctions below are decided.

**The integral.** The Laplace transform of max(0, 1 - e^{-t}) is 1/(s (s+1)). By its inversion and Fubini's theorem

    HS_eps = (1/2 pi i) int F(s) ds,    F(s) = M(s) e^{-s eps}/(s (s+1)),

over Re s = sigma for any 0 < sigma < 1/max b_j. Moving the line to -1 < sigma < 0 adds the residue M(0) = 1 at 0, moving it to
1/min b_j < sigma < -1 also that at -1, -M(-1) e^eps = -e^eps. On each of the three intervals log|F| is convex: there is one
saddle, and sigma is any point near it. That interval is taken whose integral is the smallest. The poles and the cuts of
log(1 - s b_j) are real, and the path s(x) = sigma + alpha (cosh x - 1) + i beta sinh x, |alpha| < beta, meets the real line at
sigma only. So it replaces the vertical line (alpha = 0) if F is small at infinity in between. Let

    K = eps - L_c,    L_c = -(N/2) sum_{b_j != 0} (m_j log(1 + b_j) + w_j/b_j)    (the loss at its stationary point).

**The error.** Up to x = X the integral is one of an analytic function by Petras' algorithm (``acb.integral``: Gauss-Legendre
rules with enclosed remainders). Beyond, partial fractions give, with a_j = 1 + b_j and sums over b_j != 0,

    log|F| = -K Re s + (N/2) w_0 Re(s^2 + s) + (N/2) sum (w_j a_j/b_j^2) (Re 1/(1 - s b_j) - 1)
             - (N/2) sum m_j log|1 - s b_j| - log|s (s+1)|.

If beta sinh X |b_j| >= 1 for all b_j != 0, then |1 - s b_j| >= |b_j Im s| >= 1 from there on, and neither sum is positive;
|s (s+1)| >= (beta sinh x)^2. With C = cosh x, r = sigma - alpha and h = (N/2) w_0 the other two terms are

    G = -K (r + alpha C) + h ((alpha^2 - beta^2) C^2 + (2r + 1) alpha C + r^2 + r + beta^2),

a concave function of C, which falls from there on if its derivative at C = cosh X is not positive (that is tested). As
|s'| <= (|alpha| + beta) C, the tail is at most e^{G(X)} (|alpha| + beta)/(beta^2 sinh X). The segments at large x between this
path and the line are shorter than beta C, and |F| <= e^G/(beta sinh x)^2 there with a bounded G: they vanish.

**No integral is needed** where P = Q (then HS = max(0, 1 - e^eps), exactly), where the affine supports differ (then one has
measure 0 under the other law, and HS = 1), and outside the range of a bounded loss: L <= L_c when all b_j < 0 and w_0 = 0, so
that HS = 0 for eps >= L_c; L >= L_c when all b_j > 0 and w_0 = 0, so that HS = 1 - e^eps for eps <= L_c. Where neither side of
L_c can be decided (epsilon is a ball), 0 <= HS <= 1 - e^{eps - L_c} and its mirror image enclose it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import acb, arb, ctx, fmpq, fmpq_mat, fmpq_poly, fmpz_poly

from refimpl.linalg import inverse_or_none, is_positive_semidefinite, to_fmpq
from refimpl.parameters import Real, as_integer, as_rational
from refimpl.reals import Enclosure

__all__ = ["LEAST", "Gaussian", "ball_of", "hockey_stick", "hockey_stick_of_products", "total_variation"]

PRECISIONS = (128, 192, 320, 640)
GOAL_BITS = 34  # relative accuracy that ends the rise of precision: 6e-11
LAST_END = 1 << 20
MOST_EVALUATIONS = 1 << 14  # of the integrand at one precision: some seconds
TOLERANCE_BITS = 44  # of the integral and its tail, relative to the size of the integrand at the saddle

LEAST = Fraction(1, 1 << (1 << 14))
"""A smaller divergence is enclosed by [0, LEAST]: end points are rationals, and some exponents have no room in memory."""

Epsilon = Real | arb | Callable[[], arb]
"""An exact number, a ball that holds it, or a function that gives such a ball at the working precision."""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, scale_squared * covariance), exactly.

    Attributes
    ----------
    mean
        d rationals.
    covariance
        d x d, symmetric and positive semidefinite; it may be singular.
    scale_squared
        A positive factor of the covariance, c^2 of Algorithm 1.
    """

    mean: tuple[Fraction, ...]
    covariance: fmpq_mat
    scale_squared: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        rows, columns = self.covariance.nrows(), self.covariance.ncols()
        if rows != columns or rows < 1:
            raise ValueError(f"covariance must be square and not empty, got {rows} x {columns}")
        if len(self.mean) != rows:
            raise ValueError(f"mean must have {rows} coordinates, got {len(self.mean)}")
        if self.covariance != self.covariance.transpose():
            raise ValueError("covariance must be symmetric")
        if not is_positive_semidefinite(self.covariance):
            raise ValueError("covariance must be positive semidefinite")
        if self.scale_squared <= 0:
            raise ValueError("scale_squared must be positive")

    @classmethod
    def of(cls, mean: Sequence[Real], covariance: Sequence[Sequence[Real]], scale_squared: Real = 1) -> Gaussian:
        """From nested sequences of exact numbers; floats are the dyadic rationals that they are."""
        rows = [[to_fmpq(as_rational("covariance", v)) for v in row] for row in covariance]
        centre = tuple(as_rational("mean", v) for v in mean)
        return cls(centre, fmpq_mat(rows), as_rational("scale_squared", scale_squared))


def ball_of(value: Enclosure | Fraction | int) -> arb:
    """The ball of an enclosure or a rational at the working precision."""
    if isinstance(value, Enclosure):
        return ball_of(value.lower).union(ball_of(value.upper))
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def _end(value: arb) -> Fraction:
    mantissa, exponent = value.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


# The privacy loss -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Relation:
    """P relative to Q in exact numbers: B = Sigma_1 Sigma_2^{-1} - I and moments D^T Sigma_2^{-1} B^i D of D = (mu_1 - mu_2)/c.

    ``nonzero`` is the characteristic polynomial of B without its zeros at 0, ``flat`` is w_0.
    """

    nonzero: fmpz_poly
    has_flat: bool
    moments: tuple[fmpq, ...]
    flat: fmpq


def _restricted(p: Gaussian, q: Gaussian) -> tuple[fmpq_mat, fmpq_mat, fmpq_mat] | None:
    """Nonsingular covariances and the difference of means in coordinates of the common support; None if supports differ.

    P lives on mu_1 + range(Sigma_1), Q likewise. If these affine spaces differ, one of them meets the other in a set of measure
    zero. If they are one, the pivot columns J of Sigma_1 span the range, so that the coordinates J are injective on it.
    """
    one, two = p.covariance * to_fmpq(p.scale_squared), q.covariance * to_fmpq(q.scale_squared)
    d = one.nrows()
    move = fmpq_mat(d, 1, [to_fmpq(u - v) for u, v in zip(p.mean, q.mean, strict=True)])
    together = [[*one.table()[i], *two.table()[i], move[i, 0]] for i in range(d)]
    rank = one.rank()
    if not two.rank() == rank == fmpq_mat(together).rank():
        return None
    reduced, _ = one.rref()
    pivots = [next(j for j in range(d) if reduced[i, j] != 0) for i in range(rank)]

    def part(matrix: fmpq_mat, columns: Sequence[int]) -> fmpq_mat:
        return fmpq_mat(rank, len(columns), [matrix[i, j] for i in pivots for j in columns])

    return part(one, pivots), part(two, pivots), part(move, [0])


def _relation(one: fmpq_mat, two: fmpq_mat, move: fmpq_mat) -> _Relation:
    d = one.nrows()
    inverse = inverse_or_none(two)
    assert inverse is not None, "the support was reduced to where both covariances are nonsingular"
    change = (one - two) * inverse  # self-adjoint in the inner product of the inverse
    polynomial = change.charpoly()
    zeros = next(i for i, c in enumerate(polynomial.coeffs()) if c != 0)
    nonzero = fmpq_poly(polynomial.coeffs()[zeros:])
    moments, vector = [], move
    for _ in range(d):
        moments.append((move.transpose() * inverse * vector)[0, 0])
        vector = change * vector
    simple = nonzero // nonzero.gcd(nonzero.derivative()) if nonzero.degree() > 0 else fmpq_poly([1])
    # prod (x - b_j)/(-b_j) over the nonzero eigenvalues is the projection on the kernel of the change
    flat = sum((c * m for c, m in zip(simple.coeffs(), moments, strict=False)), fmpq(0)) / simple.coeffs()[0]
    numerator = fmpz_poly([int(c) for c in (nonzero * nonzero.denom()).coeffs()])
    return _Relation(numerator, zeros > 0, tuple(moments), flat if zeros else fmpq(0))


@dataclass(frozen=True, eq=False)
class _Direction:
    """An eigenvalue 1 + b != 1 with log(1 + b), its multiplicity m and the squared distance w of the means there."""

    b: arb
    log_a: arb
    m: int
    w: arb


@dataclass(frozen=True, eq=False)
class _Loss:
    """The privacy loss of ``samples`` draws at the working precision, and epsilon."""

    directions: tuple[_Direction, ...]
    flat: fmpq
    samples: int
    epsilon: arb

    def exponent(self, s: Any) -> Any:
        """Log of M(s) e^{-s eps}, for a ball s off the cuts."""
        total = self.flat * s * (s + 1)
        for j in self.directions:
            v = 1 - s * j.b
            total += j.w * s * (s + 1) / v - j.m * (s * j.log_a + v.log())
        return total * self.samples / 2 - s * self.epsilon

    def slope(self, s: Any) -> Any:
        """Derivative of :meth:`exponent`."""
        total = self.flat * (2 * s + 1)
        for j in self.directions:
            v = 1 - s * j.b
            total += j.w * (1 + 2 * s - j.b * s * s) / (v * v) - j.m * (j.log_a - j.b / v)
        return total * self.samples / 2 - self.epsilon

    def bends(self, s: arb) -> tuple[arb, arb]:
        """Second and third derivative of log F at a real s."""
        second, third = 2 * arb(self.flat), arb(0)
        for j in self.directions:
            v = 1 - s * j.b
            second += j.m * (j.b / v) ** 2 + 2 * j.w * (1 + j.b) / v**3
            third += 2 * j.m * (j.b / v) ** 3 + 6 * j.w * (1 + j.b) * j.b / v**4
        poles = 1 / s**2 + 1 / (1 + s) ** 2, 2 / s**3 + 2 / (1 + s) ** 3
        return second * self.samples / 2 + poles[0], third * self.samples / 2 - poles[1]

    def beyond_stationary(self) -> arb:
        """K = eps - L_c."""
        total = sum((j.m * j.log_a + j.w / j.b for j in self.directions), arb(0))
        return self.epsilon + total * self.samples / 2

    def has_sign(self, sign: int) -> bool:
        """Whether every direction that matters has b of one sign: the loss is bounded on one side by L_c."""
        return self.flat == 0 and all(bool(j.b * sign > 0) for j in self.directions)


def _loss(relation: _Relation, samples: int, epsilon: arb) -> _Loss | None:
    """The loss at the working precision, or None if that is too low to tell the eigenvalues apart."""
    found: Any = relation.nonzero.complex_roots()  # python-flint's stub gives the elements of the pairs, not the pairs
    roots = [(acb(root).real, int(multiplicity)) for root, multiplicity in found]  # of a symmetric pencil: real
    nodes = [arb(0)] * relation.has_flat + [b for b, _ in roots]
    directions = []
    for b, m in roots:
        others = [node for node in nodes if node is not b]
        if not (1 + b > 0 and abs(b) > 0 and all(abs(b - node) > 0 for node in others)):
            return None
        weight = _interpolated(b, others, relation.moments)
        directions.append(_Direction(b, b.log1p(), m, weight.nonnegative_part()))
    return _Loss(tuple(directions), relation.flat, samples, epsilon)


def _interpolated(b: arb, others: Sequence[arb], moments: Sequence[fmpq]) -> arb:
    """Sum of w over the eigenvalue b, from moments i -> sum_j w_j b_j^i: apply the Lagrange polynomial of b."""
    coefficients = [arb(1)]
    for node in others:
        shifted, kept = [arb(0), *coefficients], [*coefficients, arb(0)]
        coefficients = [(u - node * v) / (b - node) for u, v in zip(shifted, kept, strict=True)]
    return sum((c * arb(m) for c, m in zip(coefficients, moments, strict=False)), arb(0))


# The integral ---------------------------------------------------------------------------------------------------------


POSITIVE, BETWEEN, NEGATIVE = range(3)
"""The three intervals of admissible real s that the poles 0 and -1 leave."""


def _point(loss: _Loss, interval: int, y: Fraction) -> arb:
    """An exact point of an interval: 2^y is its distance from a pole over that from the other end (or that distance)."""
    odds = (ball_of(y) * arb(2).log()).exp()
    if interval == BETWEEN:
        return (-odds / (1 + odds)).mid()
    # s < 1/b for b > 0 on the right; -1 - s < (1+b)/|b| for b < 0 on the left
    sides = [j.b if interval == POSITIVE else -j.b / (1 + j.b) for j in loss.directions]
    nearest = max((side.mid() for side in sides if side > 0), key=_end, default=None)
    distance = odds if nearest is None else odds / (nearest * (1 + odds))
    return (distance if interval == POSITIVE else -1 - distance).mid()


def _saddle(loss: _Loss, interval: int) -> arb:
    """An exact point near the minimum of abs(F) on an interval, by bisection for the sign of (log F)'."""
    low, high = Fraction(-(1 << 11)), Fraction(1 << 11)
    for _ in range(44):
        middle = (low + high) / 2
        s = _point(loss, interval, middle)
        if s == -1:
            falls = interval == NEGATIVE  # s was rounded to the pole, where this interval begins or the middle one ends
        else:
            rise = (loss.slope(s) - 1 / s - 1 / (1 + s)) * (1 if interval == POSITIVE else -1)
            # what is not finite is too near to a cut, which is the far end
            inside = rise.is_finite() and all(1 - s * j.b > 0 for j in loss.directions)
            falls = inside and bool(rise.mid() <= 0)
        low, high = (middle, high) if falls else (low, middle)
    return _point(loss, interval, low)


@dataclass(frozen=True, eq=False)
class _Path:
    """s(x) = sigma + alpha (cosh x - 1) + i beta sinh x with exact sigma, alpha and beta; ``top`` is the exponent at sigma."""

    loss: _Loss
    interval: int
    sigma: arb
    alpha: arb
    beta: arb
    top: arb

    def is_usable(self) -> bool:
        """Whether sigma lies in its interval for certain, and the path has a width, at the working precision."""
        s = self.sigma
        between_poles = (s > 0, -1 < s < 0, s < -1)[self.interval]
        inside = between_poles and all(1 - s * j.b > 0 for j in self.loss.directions)
        return bool(inside and self.beta > abs(self.alpha) and self.size().is_finite())

    def integrand(self, x: acb, _analytic: bool) -> acb:
        """F(s(x)) s'(x) sigma (sigma+1)/(e^top beta) for a ball x, or a ball that is not finite where s may be on a cut.

        The exponent over a wide ball S is enclosed by E(mid) + E'(S) (S - mid): the parts of E nearly cancel, those of E' less.
        """
        sinh, cosh = x.sinh_cosh()
        s = self.sigma + self.alpha * (cosh - 1) + acb(0, 1) * self.beta * sinh
        for j in self.loss.directions:
            v = 1 - s * j.b
            if not (v.real > 0 or v.imag > 0 or v.imag < 0):
                return acb("nan")
        middle = s.mid()
        exponent = self.loss.exponent(middle) + self.loss.slope(s) * (s - middle) - self.top
        factor = self.sigma * (self.sigma + 1) / (s * (s + 1))
        value: acb = exponent.exp() * factor * (self.alpha / self.beta * sinh + acb(0, 1) * cosh)
        return value

    def tail(self, end: int, beyond: arb) -> arb | None:
        """Bound on the integral of the integrand's modulus beyond ``end``; None if its conditions do not hold there."""
        c, sinh = arb(end).cosh(), arb(end).sinh()
        alpha, beta, r = self.alpha, self.beta, self.sigma - self.alpha
        if not all(beta * sinh * abs(j.b) >= 1 for j in self.loss.directions):
            return None
        half = arb(self.loss.flat) * self.loss.samples / 2
        if not -beyond * alpha + half * (2 * (alpha**2 - beta**2) * c + (2 * r + 1) * alpha) <= 0:
            return None
        square = (alpha**2 - beta**2) * c**2 + (2 * r + 1) * alpha * c + r**2 + r + beta**2
        g = half * square - beyond * (r + alpha * c)
        return (g - self.top).exp() * abs(self.sigma * (self.sigma + 1)) * (abs(alpha) + beta) / (beta**3 * sinh)

    def size(self) -> arb:
        """About log of the integral's modulus."""
        return self.top + (self.beta / abs(self.sigma * (self.sigma + 1))).log()


def _path(loss: _Loss, interval: int, beyond: arb) -> _Path:
    """The hyperbola through the saddle of an interval: its width there, and its bend as far as the far end allows.

    Where a quadratic part decides (w_0 > 0) it may bend to either side, and else only to the side of the sign of K.
    """
    sigma = _saddle(loss, interval)
    second, third = loss.bends(sigma)
    beta = (1 / second.sqrt()).mid()
    bend = float((beta * third / (3 * second)).mid())
    side = 1 if beyond > 0 else -1 if beyond < 0 else 0
    if loss.flat * loss.samples * beta**2 > 0.1:
        theta = min(0.6, max(-0.6, bend))
    else:
        theta = side * (min(0.6, max(0.2, bend * side)) if bend * side > 0 else 0.1)
    return _Path(loss, interval, sigma, (beta * theta).mid(), beta, loss.exponent(sigma))


def _integral(loss: _Loss, beyond: arb) -> arb:
    """The divergence by that one of the three integrals which is the smallest.

    The residues make it HS for sigma > 0, HS - 1 for sigma in (-1, 0), and HS - 1 + e^eps for sigma < -1.
    """
    anything, goal = arb(0).union(arb(1)), arb(2) ** -TOLERANCE_BITS
    paths = [_path(loss, interval, beyond) for interval in (POSITIVE, BETWEEN, NEGATIVE)]
    usable = [path for path in paths if path.is_usable()]
    if not usable:
        return anything
    best = min(usable, key=lambda found: _end(found.size().mid()))
    # Where some w_j/b_j nearly cancel, F may grow to one side before it falls: then the line itself, which is never bent.
    for path in (best, replace(best, alpha=arb(0))):
        end = 2
        while (tail := path.tail(end, beyond)) is None or not tail < goal:
            end += 1 + end // 4
            if end > LAST_END:
                return anything
        main = acb.integral(path.integrand, 0, end, rel_tol=goal, abs_tol=goal, eval_limit=MOST_EVALUATIONS)
        if main.is_finite():
            scale = path.top.exp() * path.beta / (arb.pi() * path.sigma * (path.sigma + 1))
            residues = (arb(0), arb(1), 1 - loss.epsilon.exp())[path.interval]
            return residues + (main.imag + tail.union(-tail)) * scale
    return anything


def _divergence(loss: _Loss) -> arb:
    """HS of N draws with P != Q on a common support, at the working precision."""
    beyond, least = loss.beyond_stationary(), 1 - loss.epsilon.exp()
    if loss.has_sign(-1) and not beyond < 0:
        return arb(0) if beyond >= 0 else arb(0).union(-beyond.lower())
    if loss.has_sign(1) and not beyond > 0:
        return least if beyond <= 0 else least + loss.epsilon.exp() * arb(0).union(beyond.upper())
    return _integral(loss, beyond)


def _epsilon_ball(epsilon: Epsilon) -> arb:
    if isinstance(epsilon, arb):
        return epsilon
    return epsilon() if callable(epsilon) else ball_of(as_rational("epsilon", epsilon))


def _clipped(value: arb, epsilon: arb) -> Enclosure:
    """The enclosure of a divergence from a ball that holds it: it also lies in [max(0, 1 - e^eps), 1]."""
    if not value.is_finite():
        value = arb(0).union(arb(1))
    if value < ball_of(LEAST):
        return Enclosure(Fraction(0), Fraction(0) if value == 0 else LEAST)
    least = max(Fraction(0), _end((1 - epsilon.exp()).lower())) if epsilon < 0 else Fraction(0)
    lower, upper = max(least, _end(value.lower())), min(Fraction(1), _end(value.upper()))
    return Enclosure(lower, max(lower, upper))


def hockey_stick(epsilon: Epsilon, p: Gaussian, q: Gaussian, *, samples: int = 1) -> Enclosure:
    """HS_eps(P^N || Q^N) = sup_S P^N(S) - e^eps Q^N(S) for two Gaussians, as a certified enclosure.

    Parameters
    ----------
    epsilon
        Any real: an exact number, a ball that holds it, or a function that gives such a ball at the working precision.
    p, q
        The two laws, of one dimension.
    samples
        N, how many independent draws are seen.

    Returns
    -------
    Enclosure
        Holds the divergence for certain. Its relative width is below 1e-10 unless the ball of ``epsilon`` is too wide for
        that, the divergence is below 2^-16384, or the last precision is reached; it is a single point where the divergence
        is known to be 0 or 1.

    Raises
    ------
    TypeError, ValueError
        Naming the argument that is out of its range.

    Privacy
    -------
    Not private where P and Q depend on data.
    """
    n = as_integer("samples", samples, 1)
    if len(p.mean) != len(q.mean):
        raise ValueError(f"q must have the dimension of p, {len(p.mean)}, got {len(q.mean)}")
    parts = _restricted(p, q)
    if parts is None:
        return Enclosure.point(1)
    relation = _relation(*parts) if parts[0].nrows() else None
    is_equal = relation is None or (relation.nonzero.degree() == 0 and relation.flat == 0)
    result = Enclosure(Fraction(0), Fraction(1))
    for precision in PRECISIONS:
        with ctx.workprec(precision):
            eps = _epsilon_ball(epsilon)
            if is_equal or relation is None:
                return _of_equal(eps)
            loss = _loss(relation, n, eps)
            if loss is not None:
                value = _divergence(loss)
                new = _clipped(value, eps)
                result = Enclosure(max(result.lower, new.lower), min(result.upper, new.upper))
        if result.upper <= LEAST or (result.upper - result.lower) * (1 << GOAL_BITS) <= result.upper:
            break
    return result


def _of_equal(epsilon: arb) -> Enclosure:
    """max(0, 1 - e^eps)."""
    if epsilon >= 0:
        return Enclosure.point(0)
    value = 1 - epsilon.exp()
    return Enclosure(max(Fraction(0), _end(value.lower())), max(Fraction(0), _end(value.upper())))


def hockey_stick_of_products(
    epsilon: Epsilon, covariance_1: fmpq_mat, covariance_2: fmpq_mat, samples: int
) -> Enclosure:
    """HS_eps(N(0, Sigma_1)^N || N(0, Sigma_2)^N): what N draws, or their second moment, which is sufficient, give away.

    Arguments, result and errors as in :func:`hockey_stick`.
    """
    centre = (Fraction(0),) * covariance_1.nrows()
    return hockey_stick(epsilon, Gaussian(centre, covariance_1), Gaussian(centre, covariance_2), samples=samples)


def total_variation(p: Gaussian, q: Gaussian, *, samples: int = 1) -> Enclosure:
    """HS_0, the total variation distance. Arguments, result and errors as in :func:`hockey_stick`."""
    return hockey_stick(0, p, q, samples=samples)
