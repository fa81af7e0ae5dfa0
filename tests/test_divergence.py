"""The certified divergence of Gaussians against closed forms, quadrature, another library, and its own exact relations."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from flint import arb, ctx, fmpq_mat
from scipy import integrate, stats

from proofs_checks.divergence import LEAST, Gaussian, ball_of, hockey_stick, hockey_stick_of_products, total_variation
from refimpl.linalg import to_fmpq
from refimpl.reals import Enclosure

ACCURACY = Fraction(1, 10**10)  # what the module promises; the issue asks for 1e-6
of = Gaussian.of


def plane(*variances: Fraction | int | str, mean: Sequence[Fraction | int | str] = ()) -> Gaussian:
    d = len(variances)
    rows = [[Fraction(variances[i]) if i == j else Fraction(0) for j in range(d)] for i in range(d)]
    return of([Fraction(v) for v in mean] or [0] * d, rows)


def standard(d: int = 1) -> Gaussian:
    return plane(*[1] * d)


def assert_holds(found: Enclosure, exact: arb, accuracy: Fraction = ACCURACY) -> None:
    """The enclosure is narrow and meets another certified one."""
    assert found.upper <= LEAST or found.upper - found.lower <= accuracy * found.upper
    assert exact.rad() < 1e-12
    assert exact >= ball_of(found.lower) or exact.overlaps(ball_of(found))
    assert exact <= ball_of(found.upper) or exact.overlaps(ball_of(found))


def upper_tail(x: arb) -> arb:
    """Pr[Z > x]."""
    return (x / arb(2).sqrt()).erfc() / 2


def balle_wang(move: Fraction, epsilon: Fraction) -> arb:
    """The closed form for N(move, 1) against N(0, 1)."""
    shift, eps = ball_of(move), ball_of(epsilon)
    return upper_tail(eps / shift - shift / 2) - eps.exp() * upper_tail(eps / shift + shift / 2)


def on_the_line(mean: Fraction, a: Fraction, epsilon: Fraction) -> arb:
    """HS of N(mean, a) against N(0, 1), a != 1: the loss exceeds epsilon beyond or between the roots of a quadratic."""
    nu, var, eps = ball_of(mean), ball_of(a), ball_of(epsilon)
    # L > eps  <=>  (1 - 1/a) y^2 + 2 (nu/a) y - nu^2/a - log a - 2 eps > 0
    square, linear, constant = 1 - 1 / var, nu / var, -(nu**2) / var - var.log() - 2 * eps
    discriminant = linear**2 - square * constant
    if discriminant < 0:
        return arb(0) if a < 1 else 1 - eps.exp()
    root = discriminant.sqrt()
    low, high = sorted([(-linear - root) / square, (-linear + root) / square], key=lambda y: float(y.mid()))

    def outside(centre: arb, deviation: arb) -> arb:
        return upper_tail((high - centre) / deviation) + upper_tail((centre - low) / deviation)

    p, q = outside(nu, var.sqrt()), outside(arb(0), arb(1))
    return p - eps.exp() * q if a > 1 else (1 - p) - eps.exp() * (1 - q)


def one_direction(a: Fraction, samples: int, epsilon: Fraction) -> arb:
    """HS of N(0, a)^N against N(0, 1)^N: the loss is monotone in the sum of squares, a times or once chi-square."""
    var, eps, half = ball_of(a), ball_of(epsilon), arb(samples) / 2
    kappa = (2 * eps + samples * var.log()) * var / (var - 1)
    if kappa <= 0:
        return arb(0) if a < 1 else 1 - eps.exp()
    p, q = ((kappa / 2 / v).gamma_upper(half, 1) for v in (var, arb(1)))
    return p - eps.exp() * q if a > 1 else (1 - p) - eps.exp() * (1 - q)


@pytest.mark.parametrize("move", ["1/1000", "1/4", "1", "3", "40"])
@pytest.mark.parametrize("epsilon", ["-2", "-1/100", "0", "1/10", "1", "5"])
def test_equal_covariances_agree_with_balle_and_wang(move: str, epsilon: str) -> None:
    found = hockey_stick(Fraction(epsilon), of([Fraction(move)], [[1]]), standard())
    with ctx.workprec(400):
        exact = balle_wang(Fraction(move), Fraction(epsilon))
    assert_holds(found, exact)


def test_a_small_divergence_has_its_relative_accuracy() -> None:
    for move, epsilon in (("1/4", "17/10"), ("1/10", "7/10"), ("1/4", "5")):
        found = hockey_stick(Fraction(epsilon), of([Fraction(move)], [[1]]), standard())
        with ctx.workprec(500):
            ratio = ball_of(found) / balle_wang(Fraction(move), Fraction(epsilon))
            assert abs(ratio - 1) < 1e-10
        assert found.upper < Fraction(1, 10**11)


@pytest.mark.parametrize("seed", range(40))
def test_unequal_variances_agree_with_the_roots_of_the_quadratic(seed: int) -> None:
    draw = random.Random(seed)
    exponent = draw.choice([0.01, 0.1, 1, 4, 30])
    a = Fraction(math.exp(draw.uniform(-exponent, exponent)))
    mean = Fraction(draw.choice([0, draw.uniform(0, 3), draw.uniform(0, 1e-3), 1 << draw.randrange(20)]))
    epsilon = Fraction(draw.choice([0, 1, draw.uniform(-3, 3), draw.uniform(0, 12)]))
    found = hockey_stick(epsilon, of([mean], [[a]]), standard())
    with ctx.workprec(20000):
        exact = on_the_line(mean, a, epsilon)
        assert exact.overlaps(ball_of(found))
        assert found.upper == 0 or exact / ball_of(found.upper) > 1 - 1e-10


@pytest.mark.parametrize(
    ("mean", "variance", "epsilon"), [(1, 2, 1), (1, 0.5, 1), (0, 1.25, 0.125), (0.25, 0.875, 0.5)]
)
def test_unequal_variances_agree_with_quadrature(mean: float, variance: float, epsilon: float) -> None:
    p, q = stats.norm(mean, math.sqrt(variance)), stats.norm()

    def excess(y: float) -> float:
        return max(0.0, float(p.pdf(y) - math.exp(epsilon) * q.pdf(y)))

    value, _ = integrate.quad(excess, -15, 15, points=[-2, -1, 0, 1, 2], limit=500)
    found = hockey_stick(epsilon, of([mean], [[variance]]), standard())
    assert float(found) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("a", "samples", "epsilon"),
    [
        ("2", 1, "1"),
        ("11/10", 1, "1/10"),
        ("9/10", 1, "1/20"),
        ("9/10", 1, "5268025782891314/100000000000000000"),  # just below the largest loss
        ("9/10", 7, "1/3"),
        ("1001/1000", 100000, "1"),
        ("999/1000", 100000, "1"),
        ("99999/100000", 300000, "1/100"),
        ("1000", 3, "1"),
        ("1/1000", 3, "10"),
        ("11/10", 4, "-1/10"),
        ("11/10", 4, "-1"),
        ("1.1031082665621719", 2, "8.927110919706658"),  # the saddle is near the cut
    ],
)
def test_one_direction_agrees_with_chi_square(a: str, samples: int, epsilon: str) -> None:
    found = hockey_stick(Fraction(epsilon), plane(a), standard(), samples=samples)
    with ctx.workprec(2000):
        exact = one_direction(Fraction(a), samples, Fraction(epsilon))
        assert exact.overlaps(ball_of(found))
    assert found.upper - found.lower <= ACCURACY * found.upper


@pytest.mark.parametrize(("up", "down", "samples"), [("21/20", "19/20", 1), ("21/20", "24/25", 50), ("3", "1/3", 2)])
def test_one_up_one_down_agrees_with_a_mixture_of_gamma_laws(up: str, down: str, samples: int) -> None:
    a_1, a_2, epsilon = float(Fraction(up)), float(Fraction(down)), 0.25
    found = hockey_stick(Fraction(1, 4), plane(up, down), standard(2), samples=samples)
    # L > eps  <=>  (1 - 1/a_1) U - (1/a_2 - 1) V > kappa, U and V sums of squares
    kappa = 2 * epsilon + samples * (math.log(a_1) + math.log(a_2))

    def beyond(scale_1: float, scale_2: float) -> float:
        chi = stats.chi2(samples)
        value, _ = integrate.quad(
            lambda v: chi.pdf(v) * chi.sf((kappa + (1 / a_2 - 1) * scale_2 * v) / (1 - 1 / a_1) / scale_1),
            0,
            max(60, 3 * samples + 150),
            limit=2000,
            points=[1e-6, 1e-3, 0.1, 1, samples],
            epsabs=1e-13,
        )
        return float(value)

    assert float(found) == pytest.approx(beyond(a_1, a_2) - math.exp(epsilon) * beyond(1, 1), rel=1e-6)


def test_a_product_is_one_gaussian_with_repeated_eigenvalues() -> None:
    for epsilon in (Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(3)):
        product = hockey_stick(epsilon, plane("5/4", "4/5", "1"), standard(3), samples=4)
        one = hockey_stick(epsilon, plane(*["5/4", "4/5", "1"] * 4), standard(12))
        assert_holds(product, ball_of(one))
    centred = hockey_stick_of_products(Fraction(1, 2), fmpq_mat([[5, 0], [0, 4]]), fmpq_mat([[4, 0], [0, 5]]), 3)
    assert_holds(centred, ball_of(hockey_stick(Fraction(1, 2), plane(5, 4), plane(4, 5), samples=3)))


def test_draws_with_a_mean_are_one_draw_with_a_longer_mean() -> None:
    one = hockey_stick(1, plane(1, mean=["1/2"]), standard(), samples=4)
    assert_holds(one, ball_of(hockey_stick(1, plane(1, mean=[1]), standard())))


def test_agrees_with_dp_accounting() -> None:
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss  # noqa: PLC0415 - it may be absent

    for deviation in (0.5, 1.0, 4.0):
        for epsilon in (0.1, 1.0, 2.0):
            theirs = GaussianPrivacyLoss(deviation).get_delta_for_epsilon(epsilon)
            ours = hockey_stick(epsilon, of([1], [[deviation**2]]), of([0], [[deviation**2]]))
            assert float(ours) == pytest.approx(float(theirs), rel=1e-9)


PAIRS = [
    (of([1, 2], [[5, 1], [1, 3]]), of([0, 1], [[4, 2], [2, 7]])),
    (of([0, 0], [[5, 1], [1, 3]]), of([0, 0], [[4, 1], [1, 3]])),
    (of([1, 0, 0], [[2, 1, 0], [1, 2, 0], [0, 0, 1]]), of([0, 0, 1], [[2, 1, 0], [1, 2, 0], [0, 0, 1]], "3/2")),
    (
        of([1, 0, 1], [[3, 0, 1], [0, 2, 0], [1, 0, 2]], "1/100"),
        of([1, 0, 1], [[3, 1, 1], [1, 2, 0], [1, 0, 2]], "1/100"),
    ),
]


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_falls_in_epsilon_and_is_convex_in_its_growth(p: Gaussian, q: Gaussian) -> None:
    grid = [Fraction(i, 4) for i in range(-8, 13)]
    found = [hockey_stick(e, p, q) for e in grid]
    for upper, lower in pairwise(found):
        assert lower.lower <= upper.upper
    assert all(max(0.0, 1 - math.exp(e)) - 1e-12 <= float(f) <= 1 for e, f in zip(grid, found, strict=True))
    x, y = [math.exp(e) for e in grid], [float(f) for f in found]
    slopes = [(y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    assert all(left <= right + 1e-9 for left, right in pairwise(slopes))


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_swapping_reflects_it(p: Gaussian, q: Gaussian) -> None:
    for epsilon in (Fraction(0), Fraction(1, 3), Fraction(2), Fraction(-1)):
        there, back = hockey_stick(epsilon, p, q), hockey_stick(-epsilon, q, p)
        with ctx.workprec(200):
            growth = ball_of(epsilon).exp()
            assert (1 - growth + growth * ball_of(back)).overlaps(ball_of(there))
    assert total_variation(p, q).upper >= total_variation(q, p).lower
    assert total_variation(q, p).upper >= total_variation(p, q).lower


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_an_affine_map_changes_nothing(p: Gaussian, q: Gaussian) -> None:
    d = len(p.mean)
    shear = fmpq_mat([[to_fmpq(Fraction(1 if i == j else (i + 2 * j) % 3 - 1, 1)) for j in range(d)] for i in range(d)])
    assert shear.det() != 0

    def moved(g: Gaussian) -> Gaussian:
        centre = shear * fmpq_mat(d, 1, [to_fmpq(v) for v in g.mean])
        mean = tuple(Fraction(int(v.p), int(v.q)) * 1024 + 7 for v in centre.entries())
        return Gaussian(mean, shear * g.covariance * shear.transpose() * 1024**2, g.scale_squared)

    for samples in (1, 3):
        assert_holds(
            hockey_stick(Fraction(1, 5), moved(p), moved(q), samples=samples),
            ball_of(hockey_stick(Fraction(1, 5), p, q, samples=samples)),
        )


@pytest.mark.nightly
def test_random_pairs_are_enclosed_narrowly_and_swap() -> None:
    draw = random.Random(5)
    for _ in range(1500):
        d, scale, shift = draw.randrange(1, 5), draw.choice([1e-6, 1e-3, 0.1, 1, 5]), draw.choice([0, 1e-3, 0.3, 1, 50])
        variances = [Fraction(math.exp(draw.choice([0, draw.uniform(-scale, scale)]))) for _ in range(d)]
        mean = [Fraction(draw.choice([0, draw.uniform(-shift, shift)])) for _ in range(d)]
        samples = draw.choice([1, 1, 2, 10, 1000, 10**5])
        epsilon = Fraction(draw.choice([0, 1, draw.uniform(-3, 3), draw.uniform(0, 10) * scale, draw.uniform(-50, 50)]))
        p, q = plane(*variances, mean=mean), standard(d)
        there, back = hockey_stick(epsilon, p, q, samples=samples), hockey_stick(-epsilon, q, p, samples=samples)
        assert there.upper <= LEAST or there.upper - there.lower <= ACCURACY * there.upper
        with ctx.workprec(300):
            growth = ball_of(epsilon).exp()
            assert (1 - growth + growth * ball_of(back)).overlaps(ball_of(there))


def test_a_huge_epsilon_needs_no_room() -> None:
    assert hockey_stick(10**12, of([1], [[1]]), standard()) == Enclosure(Fraction(0), LEAST)
    assert hockey_stick(-(10**12), of([1], [[1]]), standard()).lower > 1 - Fraction(1, 10**30)


def test_embedding_in_more_dimensions_changes_nothing() -> None:
    wide = fmpq_mat([[1, 0], [1, 1], [2, -1]])

    def embedded(g: Gaussian) -> Gaussian:
        centre = wide * fmpq_mat(2, 1, [to_fmpq(v) for v in g.mean])
        return Gaussian(
            tuple(Fraction(int(v.p), int(v.q)) for v in centre.entries()), wide * g.covariance * wide.transpose()
        )

    p, q = PAIRS[0]
    assert embedded(p).covariance.rank() == 2
    assert_holds(hockey_stick(1, embedded(p), embedded(q)), ball_of(hockey_stick(1, p, q)))


def test_equal_laws_are_told_apart_by_nothing() -> None:
    p = of([1, 2], [[5, 1], [1, 3]], "1/7")
    same = of([1, 2], [["5/7", "1/7"], ["1/7", "3/7"]])
    for samples in (1, 1000):
        assert hockey_stick(0, p, same, samples=samples) == Enclosure.point(0)
        assert hockey_stick(1, p, same, samples=samples) == Enclosure.point(0)
        below = hockey_stick(-1, p, same, samples=samples)
        assert float(below) == pytest.approx(1 - math.exp(-1), rel=1e-15)
    assert hockey_stick(1, of([3], [[0]]), of([3], [[0]])) == Enclosure.point(0)


def test_different_supports_are_told_apart_for_certain() -> None:
    line, other = of([0, 0], [[1, 1], [1, 1]]), of([0, 0], [[1, -1], [-1, 1]])
    for p, q in (
        (line, other),
        (line, standard(2)),
        (standard(2), line),
        (line, of([0, 1], [[1, 1], [1, 1]])),
        (of([3], [[0]]), of([4], [[0]])),
        (of([3], [[0]]), of([3], [[1]])),
    ):
        assert hockey_stick(5, p, q) == Enclosure.point(1)


def test_a_bounded_loss_has_an_end() -> None:
    narrow = plane("9/10", "4/5")
    largest = -math.log(0.9 * 0.8) / 2
    assert hockey_stick(largest + 1e-9, narrow, standard(2)) == Enclosure.point(0)
    just_below = hockey_stick(largest - 1e-9, narrow, standard(2))
    assert 0 < just_below.lower <= just_below.upper < 2e-9
    reverse = hockey_stick(-largest - 1e-9, standard(2), narrow)
    assert float(reverse) == pytest.approx(1 - math.exp(-largest - 1e-9), rel=1e-12)


def test_an_epsilon_that_is_a_ball_is_used_as_one() -> None:
    p, q = PAIRS[0]
    wide = hockey_stick(arb(1, 0.001), p, q)
    assert wide.lower < hockey_stick(1, p, q).lower <= hockey_stick(1, p, q).upper < wide.upper
    exact = hockey_stick(lambda: arb(3).log(), p, q)
    assert exact.upper - exact.lower <= ACCURACY * exact.upper
    # Where the ball holds the largest loss, nothing is decided, and the enclosure says so.
    edge = hockey_stick(arb(-math.log(0.9) / 2, 1e-6), plane("9/10"), standard())
    assert edge.lower == 0 < edge.upper < 1e-5


def test_bad_arguments_are_named() -> None:
    for bad, name in (
        (lambda: of([0], [[-1]]), "covariance"),
        (lambda: of([0, 0], [[1, 2], [2, 1]]), "covariance"),
        (lambda: of([0, 0], [[1, 1], [0, 1]]), "covariance"),
        (lambda: of([0, 0], [[1, 0]]), "covariance"),
        (lambda: of([0], [[1, 0], [0, 1]]), "mean"),
        (lambda: of([0], [[1]], 0), "scale_squared"),
        (lambda: hockey_stick(1, standard(), standard(2)), "q"),
        (lambda: hockey_stick(1, standard(), standard(), samples=0), "samples"),
        (lambda: hockey_stick(float("inf"), standard(), standard()), "epsilon"),
    ):
        with pytest.raises((TypeError, ValueError), match=name):
            bad()
