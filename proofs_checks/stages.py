"""Where a target first departs from refimpl: both are led through the data flow side by side, on the case that refutes.

The stages are those of the data flow: rows are paired, norms decide what leaves a subset, subsets give weights, covariance
and score; cores give weights, mean and score; the scores are tested, and noise is added. SHARP's rows are lifted in place of
being paired. A stage is handed what refimpl
computed before it wherever the target's functions allow, so that the first difference is where the fault is and not
where it shows. What a target does not offer cannot be looked into: the departure says which earlier stages those are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

import refimpl
from proofs_checks.conformance import Edge
from proofs_checks.datasets import Pair, pinned_pairs
from proofs_checks.exact import float_fractions
from proofs_checks.lemma import AuditError, Case, Claim, at_most, equal
from proofs_checks.privacy import HUGE_OUTLIERS, SMALL_FAMILY, OutlierFamily, Plane, RealPair, run_private_mean
from proofs_checks.ptr import Budget
from proofs_checks.sharp import PAIRS as SHARP_PAIRS
from proofs_checks.sharp import MomentPair
from proofs_checks.sharp_curves import DRAWS_LINE, LEARNER_LINE, MEAN_LINE, MEAN_PLANE, Planned, ReleasePair
from proofs_checks.target import Target, levels_of
from refimpl.linalg import differences, exact_matrix, inverse_or_none, mahalanobis_squared, rows_of, second_moment
from refimpl.parameters import (
    REPAIRED,
    SHARP,
    Edition,
    as_rational,
    covariance_parameters,
    gaussian_parameters,
    mean_parameters,
)
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

__all__ = ["SHARP_RELEASES", "STAGES", "Departure", "Inputs", "first_departure", "inputs_of"]

STAGES = ("pairing", "lift", "norm", "subset", "weights", "covariance", "core", "mean", "score", "test", "noise")
"""The stages at which a target can depart, in the order in which a report lists them."""

COVARIANCE, MEAN, MOMENTS, RELEASE = "covariance stage", "mean stage", "one stage of SHARP", "release"
SHARP_RELEASE = "release of SHARP"

_FIRST = ("pairing", "norm", "subset", "weights", "covariance")
_ONE = ("lift", "norm", "subset", "score", "weights", "mean", "covariance")
FLOW = {
    COVARIANCE: (*_FIRST, "score"),
    MEAN: (*_FIRST, "core", "weights", "mean", "score"),
    MOMENTS: _ONE,
    RELEASE: tuple(stage for stage in STAGES if stage != "lift"),
    SHARP_RELEASE: (*_ONE, "test", "noise"),
}
"""The stages on the way to each part, in the order of the data flow."""

_GIVEN = ("private_mean_given", "private_covariance_given", "private_gaussian_given")
SHOWN_BY = {
    "pairing": ("stable_covariance",),
    "lift": ("stable_moments",),
    "norm": ("largest_good_subset", "stable_second_moment", "stable_covariance", "stable_moments"),
    "subset": ("largest_good_subset", "stable_second_moment", "stable_covariance", "stable_moments"),
    "weights": ("stable_second_moment", "stable_covariance", "stable_moments"),
    "covariance": ("stable_second_moment", "stable_covariance", "stable_moments"),
    "core": ("largest_core", "stable_mean"),
    "mean": ("stable_mean", "stable_moments"),
    "score": ("stable_second_moment", "stable_covariance", "stable_mean", "stable_moments"),
    "test": ("ptr_pass_probability_at_growth", "ptr_pass_probability", *_GIVEN),
    "noise": _GIVEN,
}
"""Any one of which functions lets one look at a stage."""

MOST = Fraction(1 << 40)  # a threshold that no norm reaches
NEAR = Fraction(1, 1 << 20)  # how near to a norm the threshold is put: far above rounding, far below any fault


@dataclass(frozen=True)
class Departure:
    """The first stage at which a target departs from refimpl.

    Attributes
    ----------
    stage
        One of :data:`STAGES`.
    part
        Where in the data flow: the covariance stage, the mean stage, SHARP's one stage, or the release of either.
    what
        The difference, with its numbers, or what the target raised there.
    unseen
        Earlier stages that the target offers no function to look at.
    """

    stage: str
    part: str
    what: str
    unseen: tuple[str, ...] = ()

    def __str__(self) -> str:
        hidden = f" (not offered, and so not looked at before: {', '.join(self.unseen)})" if self.unseen else ""
        return f"{self.stage}, in the {self.part}: {self.what}{hidden}"


@dataclass(frozen=True)
class Inputs:
    """What the stages are run on, None where a case has none.

    Attributes
    ----------
    lambda_0, k
        Public arguments.
    y
        Rows for the covariance stage without its pairing.
    x
        Rows for both stages.
    reference, covariance
        Of the mean stage; without a covariance it takes the one that the first stage computes.
    lambda_mean
        Outlier threshold of the mean stage where it is not that of the covariance stage.
    parameters, coins
        Of a whole run of Algorithm 1.
    """

    lambda_0: Fraction
    k: int
    y: Any = None
    x: Any = None
    reference: tuple[int, ...] | None = None
    covariance: Any = None
    parameters: Any = None
    coins: Any = None
    lambda_mean: Fraction | None = None

    @property
    def lambda_of_distances(self) -> Fraction:
        """The outlier threshold of the mean stage."""
        return self.lambda_0 if self.lambda_mean is None else self.lambda_mean


# What a case gives ----------------------------------------------------------------------------------------------------


def inputs_of(case: Case, target: Target) -> list[Inputs]:
    """The inputs of the stages that a case has, both data sets of a pair; none if it is no data set, or too large."""
    if isinstance(case, Pair):
        return _of_pair(case)
    if not isinstance(case, Edge | OutlierFamily | Plane | RealPair) or case.size(target.edition) > refimpl.MOST_ROWS:
        return []
    if isinstance(case, Edge):
        return [Inputs(case.lambda_0, case.k, x=case.x, reference=case.reference, lambda_mean=case.lambda_mean)]
    if isinstance(case, RealPair):
        return _of_pair(case.pair())
    if isinstance(case, Plane):
        parameters = case.parameters(target.edition)
        x = case.data(parameters.n)
    else:
        parameters = case.mean_parameters(target.edition)
        x = case.pair(parameters.n, parameters.k).x
    coins = refimpl.draw_mean_coins(parameters, np.random.default_rng(case.seed))
    reference = tuple(int(i) for i in coins.reference or ())
    return [Inputs(parameters.lambda_0, parameters.k, None, x, reference, None, parameters, coins)]


def _of_pair(pair: Pair) -> list[Inputs]:
    found = []
    for x, covariance in ((pair.x, pair.covariance), (pair.x_prime, pair.covariance_prime)):
        if pair.stage == "covariance":
            found.append(Inputs(pair.lambda_0, pair.k, y=x))
        else:
            matrix = None if covariance is None else np.array([[float(v) for v in row] for row in covariance])
            found.append(Inputs(pair.lambda_0, pair.k, x=x, reference=pair.reference, covariance=matrix))
    return found


def _known_cases(edition: Edition) -> Iterator[Case]:
    """Small cases that a departure shows on, where the refuting one is too large or is no data set."""
    if edition is SHARP:
        yield from (make() for make in SHARP_PAIRS.values())
        yield from SHARP_RELEASES
        return
    yield from {id(pair): pair for pairs in pinned_pairs().values() for pair in pairs}.values()
    yield from (SMALL_FAMILY, HUGE_OUTLIERS, Plane(1, 0, 0), Plane(1, 1, 0))


# The search -----------------------------------------------------------------------------------------------------------


def first_departure(target: Target, case: Case | None) -> Departure | None:
    """The first stage at which a target departs from refimpl, or None where no difference is seen.

    The refuting case is looked at first. Where it shows nothing (it is no data set, or too large for exact arithmetic), small
    known cases are.
    """
    if case is not None:
        found = _departure(target, case)
        if found is not None:
            return found
    return next(filter(None, (_departure(target, known) for known in _known_cases(target.edition))), None)


def _departure(target: Target, case: Case) -> Departure | None:
    flow = _Flow(target)
    try:
        for claim in flow.claims(case):
            if not claim.is_true(target.rounding):
                return flow.departure(str(claim))
    except _TargetRaisedError as error:
        return flow.departure(f"raised {error}")
    return None


class _TargetRaisedError(Exception):
    """The target raised at a stage, or returned what cannot be read."""


@dataclass(frozen=True)
class _Stage:
    """What one stage returned, as exact numbers and sets."""

    sets: tuple[frozenset[int], ...]
    weights: list[Fraction]
    estimate: list[Fraction]
    score: int


def _numbers(values: Any) -> list[Fraction]:
    """The entries of a vector or matrix, whatever it is made of."""
    table = values.tolist() if hasattr(values, "tolist") else values
    flat = [v for row in table for v in (row if isinstance(row, Iterable) else [row])]
    return [Fraction(int(v.p), int(v.q)) if hasattr(v, "p") else float_fractions([v])[0] for v in flat]


def _read(result: Any, levels: int, estimate: str) -> _Stage:
    sets, weights = levels_of(result, levels), _numbers(result.weights)
    return _Stage(sets, weights, _numbers(getattr(result, estimate)), int(result.score))


Keep = Callable[[Any, Fraction, bool], frozenset[int]]
"""Rows, a threshold, and whether it is above their largest norm: which of the rows the target keeps."""


class _Flow:
    """The data flow of a target beside that of refimpl, as claims that they are equal, in order; ``stage`` is where it is."""

    def __init__(self, target: Target) -> None:
        self.target, self.stage, self.part = target, STAGES[0], COVARIANCE

    def departure(self, what: str) -> Departure:
        order = FLOW[self.part]
        earlier = dict.fromkeys(order[: len(order) - 1 - order[::-1].index(self.stage)])
        unseen = tuple(s for s in earlier if not any(self.target.provides([name]) for name in SHOWN_BY[s]))
        return Departure(self.stage, self.part, what, unseen)

    def claims(self, case: Case) -> Iterator[Claim]:
        if isinstance(case, MomentPair) and case.size(SHARP) <= refimpl.MOST_ROWS:
            for x in (case.x, case.x_prime):
                yield from self._moment_stage(case, x)
        if isinstance(case, ReleasePair) and case.size(SHARP) <= refimpl.MOST_ROWS:
            yield from self._sharp_case(case)
        if isinstance(case, Budget):
            yield from self._law(case.exact_growth(self.target.edition), case.delta)
        for inputs in inputs_of(case, self.target):
            yield from self._one(inputs)

    def _one(self, inputs: Inputs) -> Iterator[Claim]:
        if inputs.x is not None and inputs.covariance is None:
            yield from self._pairing(len(inputs.x))
        yield from self._covariance_stage(inputs)
        if inputs.reference is not None:
            yield from self._mean_stage(inputs)
        if inputs.parameters is not None:
            yield from self._release(inputs)

    def _at(self, stage: str, part: str) -> None:
        self.stage, self.part = stage, part

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Whatever is raised in here is the target's."""
        try:
            yield
        except AuditError:
            raise
        except (Exception, SystemExit) as error:
            raise _TargetRaisedError(f"{type(error).__name__}: {error}") from error

    # Pairing, norms, subsets, weights, covariance, score

    def _pairing(self, n: int) -> Iterator[Claim]:
        """With a threshold that no row reaches, the covariance is that of all pairs, up to a factor: it shows who is paired."""
        if not self.target.provides(["stable_covariance"]):
            return
        self._at("pairing", COVARIANCE)
        ratios = []
        for x in _pairing_probes(12 + n % 2):
            with self._asked():
                mine = _read(self.target.stable_covariance(x, Fraction(1 << 20), 1), 3, "covariance")
            theirs = _read(refimpl.stable_covariance(x, Fraction(1 << 20), 1), 3, "covariance")
            yield equal("number of paired rows", len(mine.weights), len(theirs.weights))
            ratios.append(mine.estimate[0] / theirs.estimate[0])
        yield equal(
            "covariance over that of the pairs (i, i+m), on a second data set and a first one", *ratios, rounded=True
        )

    def _covariance_stage(self, inputs: Inputs) -> Iterator[Claim]:
        if inputs.y is None and inputs.covariance is not None:
            return  # the mean stage alone
        y, k = _paired(inputs), inputs.k
        thresholds = [REPAIRED.outlier_threshold(inputs.lambda_0, k, len(y), ell) for ell in range(2 * k + 1)]
        keep = self._keeper()
        if keep is not None:
            yield from self._norms(keep, y, thresholds)
        self._at("subset", COVARIANCE)
        if self.target.provides(["largest_good_subset"]):
            for lam in (thresholds[ell] for ell in _some_levels(k)):
                with self._asked():
                    kept = frozenset(int(i) for i in self.target.largest_good_subset(y, lam))
                theirs = refimpl.largest_good_subset(y, lam)
                yield at_most(
                    f"rows in which the largest good subset for lambda = {lam} differs", len(kept ^ theirs), 0
                )
        if (name := self._covariance_function(inputs)) is not None:
            rows = inputs.x if name == "stable_covariance" else y
            with self._asked():
                mine = _read(getattr(self.target, name)(rows, inputs.lambda_0, k), 2 * k + 1, "covariance")
            reference = getattr(refimpl, name)(rows, inputs.lambda_0, k)
            yield from self._same(mine, _read(reference, 2 * k + 1, "covariance"), k, COVARIANCE)

    def _covariance_function(self, inputs: Inputs) -> str | None:
        names = ("stable_second_moment",) if inputs.x is None else ("stable_covariance", "stable_second_moment")
        return next((name for name in names if self.target.provides([name])), None)

    def _keeper(self) -> Keep | None:
        """The rows that the target keeps of y at a threshold, by whichever function shows them."""
        target = self.target
        if target.provides(["largest_good_subset"]):
            return lambda y, lam, _above: frozenset(int(i) for i in target.largest_good_subset(y, lam))
        if target.provides(["stable_second_moment"]):
            return lambda y, lam, above: _kept_by_levels(partial(target.stable_second_moment, y), lam, above)
        if target.provides(["stable_covariance"]):  # the rows y are the differences of y and 0
            return lambda y, lam, above: _kept_by_levels(
                partial(target.stable_covariance, np.vstack([y, 0 * y])), lam, above
            )
        return None

    def _norms(self, keep: Keep, y: Any, thresholds: Sequence[Fraction]) -> Iterator[Claim]:
        """At a threshold just above the largest norm every row must stay, just below it the rows of that norm must leave.

        Each pass of the filter is looked at alone: the rows that it finds gone already are put to zero, which changes no norm.
        """
        self._at("norm", COVARIANCE)
        for subset in _passes(y, thresholds):
            rows = np.where(np.isin(np.arange(len(y)), sorted(subset))[:, None], y, 0.0)
            yield from self._largest_norm(partial(self._kept, keep, rows), _norms_of(rows))

    def _kept(self, keep: Keep, rows: Any, lam: Fraction, above: bool) -> frozenset[int]:
        with self._asked():
            return keep(rows, lam, above)

    def _largest_norm(
        self, keep: Callable[[Fraction, bool], frozenset[int]], norms: Sequence[Fraction] | None, most: Fraction = MOST
    ) -> Iterator[Claim]:
        """``most`` is the largest threshold that can be asked for."""
        if norms is None:
            yield at_most("rows that stay where the second moment is singular", len(keep(most, False)), 0)
            return
        largest = max(norms)
        above, below = (min(largest * (1 + sign * NEAR), most) for sign in (1, -1))
        where = f"lambda is just {{}} the largest norm, {float(largest):.9g}"
        if above > largest:
            left = len(norms) - len(keep(above, True))
            yield at_most(f"rows that leave although {where.format('above')}", left, 0)
        top = {i for i, v in enumerate(norms) if v == largest}
        yield at_most(f"rows of that norm that stay although {where.format('below')}", len(top & keep(below, False)), 0)

    def _same(self, mine: _Stage, theirs: _Stage, k: int, part: str) -> Iterator[Claim]:
        """Sets, weights, estimate and score of one stage."""
        self._at("subset" if part == COVARIANCE else "core", part)
        yield equal("number of levels", len(mine.sets), len(theirs.sets))
        for ell, (a, b) in enumerate(zip(mine.sets, theirs.sets, strict=True)):
            yield at_most(f"rows in which the set of level {ell} differs", len(a ^ b), 0)
        below = theirs.score < k  # at score k the rest is never looked at
        if below:
            self._at("weights", part)
            yield equal("number of weights", len(mine.weights), len(theirs.weights))
            yield from _same_numbers("the weight of row", mine.weights, theirs.weights)
            self._at("covariance" if part == COVARIANCE else "mean", part)
            yield equal("number of entries", len(mine.estimate), len(theirs.estimate))
            yield from _same_numbers("entry", mine.estimate, theirs.estimate)
        self._at("score", part)
        yield equal("SCORE_1" if part == COVARIANCE else "SCORE_2", mine.score, theirs.score)

    # The one stage of SHARP

    def _moment_stage(self, pair: MomentPair, x: Any) -> Iterator[Claim]:
        if not self.target.provides(["stable_moments"]):
            return
        arguments = pair.lambda_0, pair.k, pair.window
        yield from self._lift()
        self._at("norm", MOMENTS)

        def keep(lam: Fraction, _above: bool) -> frozenset[int]:
            with self._asked():
                return levels_of(self.target.stable_moments(x, lam, 1, 1), 2)[0]

        most = len(x) * (1 - NEAR)  # SHARP wants lambda_0 < n
        yield from self._largest_norm(keep, _norms_of(np.hstack([np.ones((len(x), 1)), x])), most)
        self._at("subset", MOMENTS)
        with self._asked():
            result = self.target.stable_moments(x, *arguments)
            sets, score, weights = levels_of(result, pair.levels), int(result.score), _numbers(result.weights)
        theirs = refimpl.stable_moments(x, *arguments)
        yield equal("number of levels", len(sets), pair.levels)
        for ell, (a, b) in enumerate(zip(sets, levels_of(theirs, pair.levels), strict=True)):
            yield at_most(f"rows in which the set of level {ell} differs", len(a ^ b), 0)
        self._at("score", MOMENTS)
        yield equal("SCORE", score, theirs.score)
        self._at("weights", MOMENTS)
        yield equal("number of weights", len(weights), len(theirs.weights))
        yield from _same_numbers("the weight of row", weights, _numbers(theirs.weights))
        for stage in ("mean", "covariance"):
            self._at(stage, MOMENTS)
            with self._asked():
                mine = getattr(result, stage)
                found = None if mine is None else _numbers(mine)
            right = getattr(theirs, stage)
            yield equal("there is one (1) or none (0)", int(found is not None), int(right is not None))
            if found is not None and right is not None:
                yield from _same_numbers("entry", found, _numbers(right))

    def _lift(self) -> Iterator[Claim]:
        """A norm of a row (1, x) does not change when all data are shifted: what is far from the others stays far."""
        self._at("lift", MOMENTS)
        probe = np.array([1.0, -1.0, 2.0, -2.0] * 5 + [50.0])[:, None]
        found = []
        for shift in (
            0.0,
            20.0,
        ):  # as large as the data are wide: a ridge, which is a fault of the norm, then shows little
            with self._asked():
                found.append(levels_of(self.target.stable_moments(probe + shift, Fraction(10), 1, 1), 2)[0])
        yield at_most(
            "rows in which S_0 of a data set and of the same data shifted differ", len(found[0] ^ found[1]), 0
        )

    # SHARP's test and noise

    def _sharp_case(self, case: ReleasePair) -> Iterator[Claim]:
        pair = case.pair(case.planned.plan())
        for x in (pair.x, pair.x_prime):
            yield from self._moment_stage(pair, x)
        name = f"private_{case.planned.task}_given"
        if self.target.provides([name]):
            for x in (pair.x, pair.x_prime):
                yield from self._sharp_release(_SharpRelease(name, _sharp_parameters(case.planned), x))

    def _sharp_release(self, release: _SharpRelease) -> Iterator[Claim]:
        """Estimates without noise where there are any, then the test, then the noise of one normal at a time."""
        still, size = np.zeros(release.d), max(abs(float(v)) for v in release.x.ravel())
        if release.has_mean:
            yield from self._sharp_releases("mean", release, still, np.eye(release.d), size, which="mean")
        self._at("test", SHARP_RELEASE)
        for u in release.coins_at_the_law():
            mine, theirs = self._sharp_both(release, u, still, np.eye(release.d))
            words = f"released (1) or FAIL (0) for a coin of {u / (1 << 256):.6g}"
            yield equal(words, int(bool(mine)), int(bool(theirs)))
        for j in range(release.d):
            normals, factor = 1024.0 * np.eye(release.d)[j], np.eye(release.d)
            factor[j:, j] += 2.0  # lower triangular
            yield from self._sharp_releases("noise", release, normals, factor, size)

    def _sharp_releases(
        self, stage: str, release: _SharpRelease, normals: Any, factor: Any, size: float, which: str = ""
    ) -> Iterator[Claim]:
        """That both release the same numbers, if both do: one FAIL is the business of the test."""
        self._at(stage, SHARP_RELEASE)
        mine, theirs = self._sharp_both(release, 0, normals, factor)
        for name in (name for name in theirs if name in mine and which in {"", name}):
            yield equal(f"numbers of the {name}", len(mine[name]), len(theirs[name]))
            scale = max(map(abs, theirs[name])) + (Fraction(size) if name == "mean" else 0)
            for i, (a, b) in enumerate(zip(mine[name], theirs[name], strict=True)):
                words = f"distance of entry {i} of the {name} released, for the normals {normals.tolist()}"
                yield at_most(words, abs(a - b), scale / (1 << 40), rounded=True, scale=scale)

    def _sharp_both(self, release: _SharpRelease, u: int, normals: Any, factor: Any) -> tuple[_Released, _Released]:
        with self._asked():
            mine = release.run(self.target, u, normals, factor)
        return mine, release.run(self._reference(), u, normals, factor)

    # Cores, weights, mean, score

    def _mean_stage(self, inputs: Inputs) -> Iterator[Claim]:
        if not self.target.provides(["largest_core"]) and not self.target.provides(["stable_mean"]):
            return
        self._at("core", MEAN)
        mine, theirs = self._covariances(inputs)
        x, k, reference = inputs.x, inputs.k, inputs.reference or ()
        if self.target.provides(["largest_core"]):
            for ell in _some_levels(k):
                lam = REPAIRED.distance_threshold(inputs.lambda_of_distances, k, len(x), ell)
                tau = len(reference) - REPAIRED.degree_allowance(ell)
                with self._asked():
                    core = frozenset(int(i) for i in self.target.largest_core(x, mine, lam, tau, reference))
                right = refimpl.largest_core(x, theirs, lam, tau, reference)
                yield at_most(f"rows in which the largest core of level {ell} differs", len(core ^ right), 0)
        if self.target.provides(["stable_mean"]):
            with self._asked():
                result = self.target.stable_mean(x, mine, inputs.lambda_of_distances, k, reference)
                found = _read(result, 2 * k + 1, "mean")
            right_result = refimpl.stable_mean(x, theirs, inputs.lambda_of_distances, k, reference)
            yield from self._same(found, _read(right_result, 2 * k + 1, "mean"), k, MEAN)

    def _covariances(self, inputs: Inputs) -> tuple[Any, Any]:
        """What the mean stage is given, of the target and of refimpl: their own results where there is a pipeline."""
        if inputs.covariance is not None:
            return inputs.covariance, inputs.covariance
        theirs = refimpl.stable_covariance(inputs.x, inputs.lambda_0, inputs.k)
        if self.target.provides(["stable_covariance"]):
            with self._asked():
                return self.target.stable_covariance(inputs.x, inputs.lambda_0, inputs.k), theirs
        rounded = np.array([[float(v) for v in row] for row in theirs.covariance.tolist()])
        return rounded, rounded

    # Test and noise

    def _law(self, growth: Any, delta: Fraction) -> Iterator[Claim]:
        self._at("test", RELEASE)
        edition = self.target.edition
        if not self.target.provides(["ptr_pass_probability_at_growth"]) or not isinstance(growth, Fraction):
            return
        for score in range(400):
            with self._asked():
                mine = self.target.ptr_pass_probability_at_growth(score, growth, delta, edition=edition)
                exact = mine if isinstance(mine, Fraction) else as_rational("probability", mine)
            theirs = refimpl.ptr_pass_probability_at_growth(score, growth, delta, edition=edition)
            yield equal(f"Pr[PASS] at score {score}", exact, theirs, rounded=True, scale=1)
            if theirs == 0 and score > 20:
                return

    def _release(self, inputs: Inputs) -> Iterator[Claim]:
        p = inputs.parameters
        yield from self._law_of_budget(p)
        if not self.target.provides(["private_mean_given"]):
            return
        self._at("test", RELEASE)
        still = np.zeros(p.d)
        for u in (0, *self._coins_at_the_law(inputs)):
            mine, theirs = (self._run(t, inputs, u, still) for t in (self.target, self._reference()))
            yield equal(
                f"released (1) or FAIL (0) for a coin of {u / (1 << 256):.6g}",
                int(mine is not None),
                int(theirs is not None),
            )
            if u == 0 and mine is not None and theirs is not None:
                yield from self._noise(inputs, mine, theirs)
                self._at("test", RELEASE)

    def _noise(self, inputs: Inputs, mine: list[Fraction], theirs: list[Fraction]) -> Iterator[Claim]:
        self._at("noise", RELEASE)
        slip = 1 + Fraction(1, 1 << 48)  # a release is rounded to float64, whoever computes it
        size = max(abs(float(v)) for v in inputs.x.ravel())
        for a, b in zip(mine, theirs, strict=True):
            yield at_most(
                "distance of the releases without noise", abs(a - b), Fraction(size) * (slip - 1), rounded=True
            )
        for j in range(inputs.parameters.d):
            normals = 1024.0 * np.eye(inputs.parameters.d)[j]
            one, two = (self._run(t, inputs, 0, normals) for t in (self.target, self._reference()))
            for i, (a, b) in enumerate(zip(one or (), two or (), strict=True)):
                moved = max(abs(v) for v in (b - theirs[i], *(two or ()), Fraction(size)))
                yield at_most(
                    f"distance of coordinate {i} of the releases for the normals {normals.tolist()}",
                    abs(a - b),
                    moved / (1 << 40),
                    rounded=True,
                    scale=moved,
                )

    def _law_of_budget(self, parameters: Any) -> Iterator[Claim]:
        if not self.target.provides(["ptr_pass_probability"]):
            return
        self._at("test", RELEASE)
        p = parameters
        for score in range(p.k + 3):
            with self._asked():
                found = self.target.ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=p.edition)
                mine = float(found)
            theirs = refimpl.ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=p.edition)
            yield at_most(
                f"distance of Pr[PASS] at score {score}",
                abs(Fraction(mine) - Fraction(float(theirs))),
                NEAR,
                rounded=True,
            )

    def _reference(self) -> Target:
        return Target("refimpl", refimpl, self.target.edition)

    def _coins_at_the_law(self, inputs: Inputs) -> list[int]:
        """Just below and just above refimpl's law at refimpl's score."""
        p = inputs.parameters
        if len(inputs.x) != p.n or not refimpl.passes_gates(p):
            return []
        covariance = refimpl.stable_covariance(inputs.x, p.lambda_0, p.k, edition=p.edition)
        mean = refimpl.stable_mean(inputs.x, covariance, p.lambda_0, p.k, inputs.reference or (), edition=p.edition)
        score = max(covariance.score, mean.score)
        law = refimpl.ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=p.edition)
        bits = math.floor(law.enclosure(400).lower * (1 << 256))
        return [u for u in (bits - (1 << 128), bits + (1 << 128)) if 0 < u < 1 << 256]

    def _run(self, target: Target, inputs: Inputs, u: int, normals: Any) -> list[Fraction] | None:
        coins = MeanCoins(TestCoin(u, inputs.coins.test.seed), inputs.coins.reference, normals)
        if target is not self.target:
            return run_private_mean(target, inputs.x, inputs.parameters, coins)
        with self._asked():
            return run_private_mean(target, inputs.x, inputs.parameters, coins)


# A release of SHARP ---------------------------------------------------------------------------------------------------

_Released = dict[str, list[Fraction]]
"""Mean, covariance or both, each as a list of numbers; nothing for FAIL."""

SHARP_RELEASES = (
    ReleasePair(MEAN_LINE, 1, 0, ("level", 0), ("huge", 0)),
    ReleasePair(MEAN_LINE, 4, 1 << 20, ("level", 0), ("opposite", -1)),
    ReleasePair(MEAN_PLANE, 2, 1 << 20, ("level", 0), ("opposite", -1)),
    ReleasePair(DRAWS_LINE, 9, 15, ("level", 0), ("huge", 0)),
    ReleasePair(LEARNER_LINE, 4, 1 << 20, ("level", 0), ("huge", 0)),
)
"""Cases of each release: a shift, outliers whose score the law decides about, and a plane, in which L has a transpose."""


@cache
def _sharp_parameters(planned: Planned) -> Any:
    """The record of a release."""
    names = ("epsilon", "delta", "lambda_0")
    make = {"mean": mean_parameters, "covariance": covariance_parameters, "gaussian": gaussian_parameters}[planned.task]
    return make(planned.n, planned.d, **{name: getattr(planned, name) for name in names}, edition=SHARP)


@dataclass(frozen=True, eq=False)
class _SharpRelease:
    """A function that releases, with its public arguments and its data."""

    function: str
    parameters: Any
    x: Any

    @property
    def d(self) -> int:
        return int(self.parameters.d)

    @property
    def has_mean(self) -> bool:
        return self.function != "private_covariance_given"

    def run(self, target: Target, u: int, normals: Any, factor: Any) -> _Released:
        test = TestCoin(u, bytes(32))
        coins = {
            "private_mean_given": MeanCoins(test, None, normals),
            "private_covariance_given": CovarianceCoins(test, factor),
            "private_gaussian_given": GaussianCoins(MeanCoins(test, None, normals), CovarianceCoins(test, factor)),
        }[self.function]
        found = getattr(target, self.function)(self.x, self.parameters, coins)
        parts = {name: getattr(found, name, None) for name in ("mean", "covariance")}
        return {name: _numbers(value) for name, value in parts.items() if value is not None}

    def coins_at_the_law(self) -> list[int]:
        """Just below and just above refimpl's law at refimpl's score."""
        whole = self.parameters
        p = whole.mean if self.function == "private_gaussian_given" else whole
        score = refimpl.stable_moments(self.x, p.lambda_0, p.k, p.window).score
        bits = math.floor(p.pass_probabilities[score] * (1 << 256))
        return [u for u in (0, bits - (1 << 128), bits + (1 << 128)) if 0 <= u < 1 << 256]


# What refimpl does ----------------------------------------------------------------------------------------------------


def _same_numbers(what: str, mine: Sequence[Fraction], theirs: Sequence[Fraction]) -> Iterator[Claim]:
    size = max(map(abs, theirs), default=Fraction(0))
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a != b:  # a claim each would be slow to make and to decide
            yield equal(f"{what} {i}", a, b, rounded=True, scale=size)


def _some_levels(k: int) -> list[int]:
    """The levels at which the sets are asked for one by one: the stage itself shows all of them."""
    return sorted({0, 1, k, 2 * k - 1, 2 * k})


def _kept_by_levels(stage: Callable[[Fraction, int], Any], lam: Fraction, above: bool) -> frozenset[int]:
    """What a whole stage keeps at a threshold, whatever its levels are: their faults are not those of the norm.

    For k = 1 the thresholds of the three levels are 1, 10/9 and 5/4 of the first. Above the largest norm every level must keep
    every row; below, the first is put so low that even the last is below the largest norm, and none may keep its rows.
    """
    if above:
        return frozenset.intersection(*levels_of(stage(lam, 1), 3))
    return frozenset.union(*levels_of(stage(lam * Fraction(4, 5), 1), 3))


def _pairing_probes(n: int) -> Iterator[Any]:
    """Two data sets whose right pairs have differences of sum 0 and squares that no other pairing has, up to a factor."""
    for values in ((1, 2, 4, 8, 16, -31), (3, -7, 11, 5, -14, 2)):
        first = [0, 3, -2, 7, 1, 5]
        second = [a - v for a, v in zip(first, values, strict=True)]
        yield np.array([*first, *second, 9][:n], dtype=float)[:, None]


def _paired(inputs: Inputs) -> Any:
    """Rows for the covariance stage as float64; both sides get the same ones, whatever rounding they have seen."""
    if inputs.y is not None:
        return inputs.y
    rows = differences(exact_matrix("x", inputs.x)).tolist()
    return np.array([[float(Fraction(int(v.p), int(v.q))) for v in row] for row in rows])


def _norms_of(rows: Any) -> list[Fraction] | None:
    """The squared norms of all rows in their own second moment; None where that is singular."""
    exact = exact_matrix("y", rows)
    m = exact.nrows()
    inverse = inverse_or_none(second_moment(exact, [Fraction(1, m)] * m))
    if inverse is None:
        return None
    return [Fraction(int(v.p), int(v.q)) for v in mahalanobis_squared(exact, inverse)]


MOST_PASSES = 6


def _passes(y: Any, thresholds: Sequence[Fraction]) -> list[frozenset[int]]:
    """The first few different sets that passes of the filter start from, over all thresholds."""
    everything, exact = frozenset(range(len(y))), exact_matrix("y", y)
    found: dict[frozenset[int], None] = {}
    for lam in thresholds:
        subset = everything
        while subset and len(found) < MOST_PASSES:
            found[subset] = None
            members = sorted(subset)
            rows = rows_of(exact, members)
            inverse = inverse_or_none(second_moment(rows, [Fraction(1, len(y))] * len(members)))
            norms = [] if inverse is None else mahalanobis_squared(rows, inverse)
            kept = frozenset(i for i, v in zip(members, norms, strict=False) if Fraction(int(v.p), int(v.q)) <= lam)
            if kept == subset:
                break
            subset = kept
    return list(found)
