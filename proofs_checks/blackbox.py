"""Audit of a target that only releases: a lower bound on its epsilon at the claimed delta, from runs on adjacent data.

A release is any callable ``release(x, seed)``; ``seed`` None means unseeded. What it returns is a number, a vector, a matrix or
None for FAIL; what it raises, warns and prints is seen by whoever runs it, and so counts as released too.

The guarantee. Search runs choose the pair and a few events, with their direction; test runs are drawn afresh and used once.
For each of the J chosen events E the exact (Clopper-Pearson) bounds p_low <= Pr[E on x] and q_high >= Pr[E on x'] hold at level
alpha/(2J) each, so that all hold with probability 1 - alpha, and epsilon >= log((p_low - delta)/q_high). A target that keeps
its claim is refuted with probability at most alpha, whatever the search did. What is not refuted is not shown to be private.
"""

from __future__ import annotations

import ctypes
import io
import math
import os
import random
import sys
import tempfile
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from proofs_checks.privacy import OutlierFamily
from proofs_checks.target import load_target
from proofs_checks.workers import Lost, Pool, Watch
from refimpl.parameters import REPAIRED, Edition, PrintedEditionWarning, Real, as_rational, mean_parameters

__all__ = [
    "Audited",
    "Budget",
    "DataPair",
    "Finding",
    "Habit",
    "PrivateRelease",
    "Settings",
    "TargetHungError",
    "audit_pair",
    "audit_release",
    "generic_pairs",
    "habits_of",
    "habits_within",
    "lower_bound",
    "out_of_scope",
    "outlier_pair",
    "outlier_values",
    "quiet_rows",
    "shared_noise",
    "steered_pairs",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Release = Callable[[Floats, int | None], Any]
Verdict = Literal["refuted", "not refuted", "out of scope", "raised"]

FAIL, RELEASED, NOT_FINITE = "FAIL", "a release", "a release that is not finite"


# What is audited ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """The claim: (epsilon, delta)-differential privacy under replacement of one row."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, epsilon: Real, delta: Real) -> Budget:
        """The claim with its numbers taken exactly where they are strings or fractions."""
        return cls(as_rational("epsilon", epsilon), as_rational("delta", delta))


@dataclass(frozen=True)
class Settings:
    """How much is run, and at which level.

    Attributes
    ----------
    level
        Largest probability that a target which keeps its claim is refuted.
    probe_runs, search_runs, test_runs
        Runs on each side: of each pair that the search looks at, to choose events on the best pair, and of the test.
    events
        How many events are tested; the level is shared among them.
    jobs
        Worker processes; 1 runs in this process, unless there is a time limit.
    seconds
        Time limit of one run, or None. A run can only be ended with its process, and so a limit needs a picklable release.
    """

    level: float = 1e-3
    probe_runs: int = 200
    search_runs: int = 400
    test_runs: int = 2000
    events: int = 3
    jobs: int = 1
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level must be in (0, 1), got {self.level}")
        if min(self.probe_runs, self.search_runs, self.test_runs) < 4 or min(self.events, self.jobs) < 1:
            raise ValueError("at least 4 runs of each kind, 1 event and 1 job are needed")


@dataclass(frozen=True, eq=False)
class DataPair:
    """Two data sets that should differ in one row, and where they come from."""

    x: Floats
    x_prime: Floats
    label: str = "given"


@dataclass(frozen=True)
class PrivateRelease:
    """``private_mean`` (or another such function) of an implementation as a release.

    Attributes
    ----------
    implementation
        An object with the function, or its name as :func:`load_target` takes it, which worker processes need.
    epsilon, delta, lambda_0, edition
        What the function is called with.
    function
        Its name.
    """

    implementation: Any
    epsilon: Fraction
    delta: Fraction
    lambda_0: Fraction
    edition: Edition = REPAIRED
    function: str = "private_mean"

    def __call__(self, x: Floats, seed: int | None) -> Any:
        """The release of x, or None for FAIL."""
        owner = _loaded(self.implementation) if isinstance(self.implementation, str) else self.implementation
        call = getattr(owner, self.function)
        rng = None if seed is None else np.random.default_rng(seed)
        budget = {"epsilon": self.epsilon, "delta": self.delta, "lambda_0": self.lambda_0, "edition": self.edition}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", PrintedEditionWarning
            )  # it depends on the edition alone, and not on the rows
            result = call(x, **budget, rng=rng)
        return _released_parts(result)


@lru_cache
def _loaded(name: str) -> Any:
    return load_target(name).implementation


def _released_parts(result: Any) -> Any:
    """The numbers of a result record: its mean, its covariance, or both in one vector; None for FAIL."""
    parts = [getattr(result, name) for name in ("mean", "covariance") if hasattr(result, name)]
    if isinstance(result, np.ndarray) or not parts:
        return result
    if any(part is None for part in parts):
        return None
    return np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in parts])


def out_of_scope(pair: DataPair) -> str | None:
    """Why two data sets are no pair of neighbours, so that nothing they show would be a violation; None if they are one."""
    x, other = np.asarray(pair.x), np.asarray(pair.x_prime)
    if x.ndim != 2 or other.ndim != 2 or x.shape[1:] != other.shape[1:]:
        return "not two tables of the same width"
    if len(x) != len(other):
        return f"two data sets of different size, {len(x)} and {len(other)} rows: n is public"
    if not (np.isfinite(x).all() and np.isfinite(other).all()):
        return "a row that is not finite is outside the domain"
    changed = int((x != other).any(axis=1).sum())
    if changed == 0:
        return "the same data twice"
    if changed > 1:
        same_rows = sorted(x.tolist()) == sorted(other.tolist())
        return "a permutation of the rows" if same_rows else f"{changed} rows differ, and neighbours differ in one"
    return None


# Running --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observation:
    """What one run shows: labels (FAIL, release, raised ..., warned ..., printed ..., hung), the numbers, and its time."""

    labels: frozenset[str]
    values: tuple[float, ...] | None
    seconds: float


class TargetHungError(Exception):
    """The target did not answer within the time limit, again and again."""


@dataclass
class _Printed:
    text: str = ""


def _flush() -> None:
    """Empty every buffer on the way to the descriptors, those of C too."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not there at all
            stream.flush()  # type: ignore[union-attr]  # likewise
    with suppress(OSError, TypeError, AttributeError):  # no C library to be found by that name
        ctypes.CDLL(None).fflush(None)


@contextmanager
def _capture() -> Iterator[_Printed]:
    """Whatever is printed in here: by Python, and by C code and child processes, which write to the descriptors."""
    printed, text = _Printed(), io.StringIO()
    _flush()
    with tempfile.TemporaryFile() as file:
        kept: dict[int, int] = {}
        for descriptor in (1, 2):
            with suppress(OSError):  # it is closed: nothing can be printed there
                kept[descriptor] = os.dup(descriptor)
                os.dup2(file.fileno(), descriptor)
        try:
            with redirect_stdout(text), redirect_stderr(text):
                yield printed
        finally:
            _flush()
            for descriptor, copy in kept.items():
                os.dup2(copy, descriptor)
                os.close(copy)
        file.seek(0)
        printed.text = text.getvalue() + file.read().decode(errors="replace")


def observe(release: Release, x: Floats, seed: int | None) -> Observation:
    """Run a release once and look at everything that leaves it."""
    labels, values = set(), None
    with warnings.catch_warnings(record=True) as caught, _capture() as printed:
        warnings.simplefilter("always")
        began = time.perf_counter()
        try:
            values = _numbers(release(x, seed))
            labels.add(FAIL if values is None else RELEASED)
        except (Exception, SystemExit) as error:  # noqa: BLE001, RUF100 - whatever a stranger raises is part of what it shows
            labels |= {f"raised {type(error).__name__}", f"raised {type(error).__name__}: {str(error)[:200]}"}
        seconds = time.perf_counter() - began
    if values is not None:
        labels.add(f"a release of {len(values)} numbers")
        labels |= set() if all(map(math.isfinite, values)) else {NOT_FINITE}
    labels |= {f"warned {w.category.__name__}" for w in caught}
    labels |= {f"warned {w.category.__name__}: {str(w.message)[:200]}" for w in caught}
    if printed.text:
        labels |= {"printed something", f"printed {printed.text[:200]!r}"}
    return Observation(frozenset(labels), values, seconds)


def _numbers(value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    return tuple(np.ravel(np.asarray(value, dtype=np.float64)).tolist())


Runs = tuple[Release, Floats, Sequence[int]]


def _observe_many(release: Release, x: Floats, seeds: Sequence[int]) -> list[Observation]:
    frozen = x.copy()
    frozen.flags.writeable = False  # a target that writes into its input raises, here as in a caller's hands
    return [observe(release, frozen, seed) for seed in seeds]


def _observe_watched(runs: Runs, watch: Watch) -> list[Observation]:
    """What a worker does: a run at a time is within the limit."""
    release, x, seeds = runs
    return _observe_many(_watched(release, watch), x, seeds)


MOST_HANGS = 3
"""After so many runs at the limit no further one is made."""


def run(
    release: Release,
    x: Floats,
    seeds: Sequence[int],
    jobs: int = 1,
    seconds: float | None = None,
    pool: Pool | None = None,
) -> list[Observation]:
    """One observation a seed, in this process or in worker processes (for which the release must be picklable).

    Parameters
    ----------
    release, x, seeds
        What is run, on what, and from which seeds.
    jobs, seconds
        As in :class:`Settings`.
    pool
        Workers that are there already.

    Raises
    ------
    TargetHungError
        If a few runs were at the limit.
    """
    if jobs == 1 and seconds is None:
        return _observe_many(release, x, seeds)
    if pool is None:
        with Pool(_observe_watched, jobs, seconds) as workers:
            return run(release, x, seeds, jobs, seconds, workers)
    size = max(1, math.ceil(len(seeds) / (4 * jobs)))
    chunks = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    found = dict(pool.run([(release, x, chunk) for chunk in chunks]))
    hung = [0]
    answers = (_answered(found[i], release, x, chunk, pool, hung) for i, chunk in enumerate(chunks))
    return [observation for answer in answers for observation in answer]


def _answered(
    answer: list[Observation] | Lost, release: Release, x: Floats, seeds: Sequence[int], pool: Pool, hung: list[int]
) -> list[Observation]:
    """The answer; where a run took its process down or was at the limit, whose run it was, each of them on its own."""
    if isinstance(answer, list):
        return answer
    if answer.why == "failed":
        raise RuntimeError(answer.detail)
    if len(seeds) > 1:
        alone = (next(iter(pool.run([(release, x, [seed])])))[1] for seed in seeds)
        return [
            o for seed, one in zip(seeds, alone, strict=True) for o in _answered(one, release, x, [seed], pool, hung)
        ]
    if answer.why == "died":
        return [Observation(frozenset({"crashed the process"}), None, 0.0)]
    hung[0] += 1
    if hung[0] >= MOST_HANGS:
        raise TargetHungError(f"the target hangs: {answer.detail}, {MOST_HANGS} times")
    return [Observation(frozenset({"hung"}), None, math.nan)]


@dataclass(frozen=True, eq=False)
class Sample:
    """Runs on one data set: labels of each, its numbers (NaN where nothing, or of another size, was released), and times."""

    labels: list[frozenset[str]]
    values: Floats
    seconds: Floats

    def part(self, start: int, stop: int | None) -> Sample:
        """Some of the runs."""
        return Sample(self.labels[start:stop], self.values[start:stop], self.seconds[start:stop])


def _sample(observations: Sequence[Observation], width: int) -> Sample:
    values = np.full((len(observations), width), np.nan)
    for row, seen in zip(values, observations, strict=True):
        if seen.values is not None and len(seen.values) == width:
            row[:] = seen.values
    values[~np.isfinite(values).all(axis=1)] = np.nan
    return Sample([o.labels for o in observations], values, np.array([o.seconds for o in observations]))


AUDIT, STEERING = 0, 1


class _Runner:
    """Draws samples with seeds that are never used twice, and that no runner of another purpose uses."""

    def __init__(self, release: Release, seed: int, purpose: int, settings: Settings) -> None:
        self.release, self.settings, self.width = release, settings, 0
        self.sequence = np.random.SeedSequence([seed, purpose])
        self.pool: Pool | None = None
        if settings.jobs > 1 or settings.seconds is not None:
            self.pool = Pool(_observe_watched, settings.jobs, settings.seconds)
            weakref.finalize(self, self.pool.close)

    def seeds(self, count: int) -> list[int]:
        """Fresh 64-bit seeds."""
        (child,) = self.sequence.spawn(1)
        words: list[int] = child.generate_state(count, np.uint64).tolist()
        return words

    def both(self, pair: DataPair, count: int) -> tuple[Sample, Sample]:
        """Fresh runs on both sides."""
        jobs, seconds = self.settings.jobs, self.settings.seconds
        sides = [run(self.release, x, self.seeds(count), jobs, seconds, self.pool) for x in (pair.x, pair.x_prime)]
        sizes = Counter(len(o.values) for side in sides for o in side if o.values is not None)
        self.width = sizes.most_common(1)[0][0] if sizes else max(self.width, 1)
        one, two = (_sample(side, self.width) for side in sides)
        return one, two


# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Event:
    """Something that a run shows or not."""

    kind: str
    what: str
    occurs: Callable[[Sample], Flags]


def _not(event: Event) -> Event:
    return Event(event.kind, f"not ({event.what})", lambda sample: ~event.occurs(sample))


def _label_event(label: str) -> Event:
    kinds = {"raised": "exception", "warned": "warning", "printed": "printed text", "crashed": "crash", "hung": "hang"}
    kind = kinds.get(label.split(maxsplit=1)[0], "FAIL or release")
    return Event(kind, label, lambda sample: np.array([label in labels for labels in sample.labels], dtype=bool))


def _label_events(sides: Sequence[Sample]) -> Iterator[Event]:
    counts = Counter(label for side in sides for labels in side.labels for label in labels)
    for label, _ in counts.most_common(60):
        yield _label_event(label)


def _released(sample: Sample) -> Flags:
    return np.asarray(np.isfinite(sample.values[:, 0]))


def _above(kind: str, what: str, score: Callable[[Floats], Floats], pooled: Floats) -> Iterator[Event]:
    """The events "released, and its score is above t", t over the quantiles of the scores seen."""
    for t in np.unique(np.quantile(pooled, np.linspace(0, 1, 33))[:-1]).tolist():
        yield Event(kind, f"{what} > {t:.6g}", partial(_scores_above, score, t))


def _scores_above(score: Callable[[Floats], Floats], t: float, sample: Sample) -> Flags:
    flags = _released(sample)
    flags[flags] = score(sample.values[flags]) > t
    return flags


def _moments(values: Floats, ridge: Floats) -> tuple[Floats, Floats]:
    return values.mean(axis=0), np.atleast_2d(np.cov(values, rowvar=False)) + ridge


def _quadratic(mean: Floats, inverse: Floats, values: Floats) -> Floats:
    centred = values - mean
    return np.asarray(np.einsum("ij,jk,ik->i", centred, inverse, centred))


def _fitted_events(fit: Sequence[Sample], choose: Sequence[Sample]) -> Iterator[Event]:
    """Half-spaces (linear) and ellipsoids (quadratic discriminant), fitted on some runs, thresholds from others."""
    a, b = (side.values[_released(side)] for side in fit)
    pooled = np.concatenate([side.values[_released(side)] for side in choose])
    d = a.shape[1]
    if min(len(a), len(b)) < d + 2 or not len(pooled):
        return
    size = max(float(np.abs(np.concatenate([a, b])).max()), 1e-300)
    a, b, pooled = a / size, b / size, pooled / size  # so that no square overflows
    ridge = np.diag(1e-12 * np.concatenate([a, b]).var(axis=0) + 1e-300)
    (mean_a, cov_a), (mean_b, cov_b) = _moments(a, ridge), _moments(b, ridge)
    inverse_a, inverse_b, inverse = (
        np.asarray(np.linalg.pinv(matrix), dtype=np.float64) for matrix in (cov_a, cov_b, (cov_a + cov_b) / 2)
    )
    centre = (mean_a + mean_b) / 2
    normal = inverse @ (mean_a - mean_b)
    if d == 1:  # the line itself, whatever the means are
        normal = np.ones(1)

    def linear(values: Floats) -> Floats:
        return np.asarray((values / size - centre) @ normal)

    def quadratic(values: Floats) -> Floats:
        scaled = values / size
        return _quadratic(mean_b, inverse_b, scaled) - _quadratic(mean_a, inverse_a, scaled)

    def spread(values: Floats) -> Floats:
        return _quadratic(centre, inverse, values / size)

    named = (("half-space", "linear discriminant", linear), ("ellipsoid", "quadratic discriminant", quadratic))
    for kind, what, score in (*named, ("ellipsoid", "squared distance from the centre", spread)):
        scores = score(pooled * size)
        if np.isfinite(scores).all():
            yield from _above(kind, what, score, scores)


ZERO = 1 << 20  # an exponent that no float has


def _lowest_bits(values: Floats) -> NDArray[np.int64]:
    """For each row the exponent of the lowest set bit of any of its numbers (ZERO where all are zero)."""
    mantissas, exponents = np.frexp(np.nan_to_num(values))
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    trailing = np.log2(np.maximum(whole & -whole, 1)).astype(np.int64)
    lowest = np.where(whole == 0, ZERO, exponents.astype(np.int64) - 53 + trailing)
    return np.asarray(lowest.min(axis=1), dtype=np.int64)


def _is_multiple(j: int, sample: Sample) -> Flags:
    return np.asarray(_released(sample) & (_lowest_bits(sample.values) >= j))


def _grid_events(fit: Sequence[Sample], choose: Sequence[Sample]) -> Iterator[Event]:
    """Multiples of a power of two, and residues modulo one: the low bits of a release must not depend on the data."""
    seen = np.concatenate([_lowest_bits(side.values[_released(side)]) for side in choose])
    for j in np.unique(seen[seen < ZERO])[:80].tolist():
        yield Event("low bits", f"every number is a multiple of 2^{j}", partial(_is_multiple, j))
    a, b = (side.values[_released(side)] for side in fit)
    size = float(np.abs(np.concatenate([a, b])).max(initial=0))
    if min(len(a), len(b)) < 8 or not size:
        return
    for j in range(math.frexp(size)[1] - 40, math.frexp(size)[1], 2):
        yield _residue_event(j, a, b)


BINS = 64


def _bins(values: Floats, j: int) -> NDArray[np.int64]:
    """In which of 64 parts of [0, 2^j) the first number lies, modulo 2^j."""
    return np.asarray(np.floor(np.mod(np.ldexp(values[:, 0], -j), 1.0) * BINS) % BINS, dtype=np.int64)


def _residue_event(j: int, a: Floats, b: Floats) -> Event:
    share_a, share_b = (np.bincount(_bins(v, j), minlength=BINS) / len(v) for v in (a, b))
    chosen = share_a > 2 * share_b

    def occurs(sample: Sample) -> Flags:
        flags = _released(sample)
        flags[flags] = chosen[_bins(sample.values[flags], j)]
        return flags

    return Event("low bits", f"the first number modulo 2^{j} lies where it did on x in the search", occurs)


def _repeat_events(fit: Sequence[Sample], choose: Sequence[Sample]) -> Iterator[Event]:
    """Values that come more than once, each for itself, and "a value that a side has shown before"."""
    counts = Counter(row.tobytes() for side in (*fit, *choose) for row in side.values[_released(side)])
    for value, count in counts.most_common(20):
        if count > 1:
            numbers = np.frombuffer(value).tolist()
            yield Event("repeat", f"the release is exactly {numbers}", partial(_is_among, frozenset({value})))
    for side, name in zip(fit, ("x", "x'"), strict=True):
        before = frozenset(row.tobytes() for row in side.values[_released(side)])
        yield Event("repeat", f"the release repeats one of the search on {name}", partial(_is_among, before))


def _is_among(known: frozenset[bytes], sample: Sample) -> Flags:
    return np.asarray(_released(sample) & [row.tobytes() in known for row in sample.values])


def _candidates(fit: Sequence[Sample], choose: Sequence[Sample]) -> Iterator[Event]:
    """Every event that the search compares, and its complement."""
    rooms = (_fitted_events, _grid_events, _repeat_events)
    for event in (*_label_events((*fit, *choose)), *(e for room in rooms for e in room(fit, choose))):
        yield event
        yield _not(event)


# Bounds ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def _interval(count: int, runs: int, level: float) -> tuple[float, float]:
    """One-sided exact bounds of a probability, each wrong with probability at most ``level``."""
    low = stats.binomtest(count, runs, alternative="greater").proportion_ci(1 - level, method="exact").low
    high = stats.binomtest(count, runs, alternative="less").proportion_ci(1 - level, method="exact").high
    return float(low), float(high)


def lower_bound(count: int, count_prime: int, runs: int, delta: float, level: float) -> float:
    """What epsilon is at least, up to probability ``level``: log((p_low - delta)/q_high), or 0 where that says nothing.

    Parameters
    ----------
    count, count_prime, runs
        How often the event occurred on x and on x', of ``runs`` runs each.
    delta
        At which epsilon is bounded.
    level
        Shared equally by the two bounds.
    """
    low = _interval(count, runs, level / 2)[0] - delta
    high = _interval(count_prime, runs, level / 2)[1]
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def _lows(counts: NDArray[np.int64], runs: int, level: float) -> Floats:
    return np.where(counts == 0, 0.0, stats.beta.ppf(level, np.maximum(counts, 1), runs - counts + 1))


def _highs(counts: NDArray[np.int64], runs: int, level: float) -> Floats:
    return np.where(counts == runs, 1.0, stats.beta.ppf(1 - level, counts + 1, np.maximum(runs - counts, 1)))


def power(p: float, q: float, runs: int, budget: Budget, level: float) -> float:
    """Probability that ``runs`` runs on each side refute, where the event has probabilities p and q."""
    counts = np.arange(runs + 1)
    limits = (_lows(counts, runs, level / 2) - float(budget.delta)) / math.exp(budget.epsilon)
    most = np.searchsorted(_highs(counts, runs, level / 2), limits, side="left") - 1
    return float(np.sum(stats.binom.pmf(counts, runs, p) * stats.binom.cdf(most, runs, q)))


@lru_cache
def _detectable(runs: int, budget: Budget, level: float) -> float:
    """The least p, to three digits, for which an event of probabilities p and 0 is refuted with probability 9/10."""
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, 0.0, runs, budget, level) >= 0.9 else (middle, high)
    return high


@np.errstate(all="ignore")  # releases of any size are compared
def _chosen_events(
    fit: Sequence[Sample], choose: Sequence[Sample], budget: Budget, most: int
) -> list[tuple[float, Event, bool]]:
    """The most promising events, at most one of a kind, with a bound to rank them and whether x and x' are exchanged."""
    events = list(_candidates(fit, choose))
    counts = np.array([[int(event.occurs(side).sum()) for side in choose] for event in events])
    runs = len(choose[0].labels)
    best: dict[str, tuple[float, Event, bool]] = {}
    for exchanged in (False, True):
        p, q = counts[:, ::-1].T if exchanged else counts.T
        # Ranks candidates only, so a blunt level does; the test has its own runs and its own level.
        lows, highs = _lows(p, runs, 0.1) - float(budget.delta), _highs(q, runs, 0.1)
        with np.errstate(all="ignore"):
            bounds = np.where(lows > 0, np.log(np.maximum(lows, 1e-300) / highs), -np.inf)
        for bound, event in zip(bounds.tolist(), events, strict=True):
            if event.kind not in best or bound > best[event.kind][0]:
                best[event.kind] = (bound, event, exchanged)
    return sorted(best.values(), key=lambda entry: -entry[0])[:most]


# The audit of one pair ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """One tested event: how often it occurred on either side, and what that says of epsilon.

    Attributes
    ----------
    kind, event
        What occurred.
    likely, unlikely
        Which side is compared with which: "x" and "x'".
    counts, runs
        Occurrences on the two sides, in that order, of ``runs`` runs each.
    intervals
        Exact intervals of the two probabilities; each end is wrong with probability at most level/(2J).
    epsilon
        Lower bound on epsilon at the claimed delta.
    refutes
        Whether that is above the claimed epsilon.
    """

    kind: str
    event: str
    likely: str
    unlikely: str
    counts: tuple[int, int]
    runs: int
    intervals: tuple[tuple[float, float], tuple[float, float]]
    epsilon: float
    refutes: bool

    def __str__(self) -> str:
        sides = ", ".join(
            f"{count}/{self.runs} on {side} (in [{low:.4g}, {high:.4g}])"
            for count, side, (low, high) in zip(self.counts, (self.likely, self.unlikely), self.intervals, strict=True)
        )
        return f"{self.kind}: {self.event}: {sides}; epsilon >= {self.epsilon:.4g}"


@dataclass
class Audited:
    """What an audit found.

    Attributes
    ----------
    name, budget, pair
        What was audited, its claim, and the pair.
    verdict
        "refuted", "not refuted", "out of scope" (the data sets are no neighbours) or "raised" (nothing but exceptions).
    settings
        Level and runs.
    search_runs_used
        All runs of the search, on both sides, of all pairs.
    findings
        The tested events.
    power
        Probability that the test refutes if the search's frequencies are the probabilities (a plan, not a guarantee).
    detectable
        An event of this probability on one side and 0 on the other is found with probability 9/10.
    timing
        Median seconds of FAIL and of a release on x and x': reported, never judged.
    note
        Why, where there is no number that says it.
    """

    name: str
    budget: Budget
    pair: DataPair
    verdict: Verdict
    settings: Settings
    search_runs_used: int = 0
    findings: list[Finding] = field(default_factory=list)
    power: float = 0.0
    detectable: float = 1.0
    timing: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at the claimed delta, right with probability 1 - level."""
        return max((finding.epsilon for finding in self.findings), default=0.0)

    def sentence(self) -> str:
        """The verdict in words that claim no more than was found."""
        claim = f"({float(self.budget.epsilon):g}, {float(self.budget.delta):g})"
        if self.verdict == "out of scope":
            return f"{self.name}: out of scope: {self.note}"
        if self.verdict == "raised":
            return f"{self.name}: nothing was audited: {self.note}"
        runs = f"{self.settings.test_runs} test runs on each side, {len(self.findings)} events"
        word = f"{self.verdict} at level {self.settings.level:g}"
        power = f"power {self.power:.3f} at the frequencies of the search, 0.9 for {self.detectable:.3g} against 0"
        return f"{self.name}: {claim} {word}: epsilon >= {self.epsilon:.4g} ({runs}; {power}; pair: {self.pair.label})"

    def __str__(self) -> str:
        timing = "; ".join(f"{what} {seconds:.3g} s" for what, seconds in self.timing.items())
        lines = [self.sentence(), *(f"  {finding}" for finding in self.findings)]
        return "\n".join([*lines, f"  median times (not judged): {timing}"] if timing else lines)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "target": self.name,
            "epsilon": str(self.budget.epsilon),
            "delta": str(self.budget.delta),
            "verdict": self.verdict,
            "sentence": self.sentence(),
            "level": self.settings.level,
            "power": self.power,
            "detectable": self.detectable,
            "search_runs": self.search_runs_used,
            "test_runs": 2 * self.settings.test_runs if self.findings else 0,
            "epsilon_lower_bound": self.epsilon,
            "pair": self.pair.label,
            "findings": [vars(finding) for finding in self.findings],
            "timing": self.timing,
            "note": self.note,
        }


def audit_pair(
    release: Release, pair: DataPair, budget: Budget, settings: Settings | None = None, *, name: str = "", seed: int = 0
) -> Audited:
    """Audit a release on one pair of data sets.

    Parameters
    ----------
    release
        ``release(x, seed)``; picklable where ``settings.jobs`` is more than 1.
    pair
        Two data sets; unless they differ in one row, the verdict is "out of scope".
    budget
        What is claimed.
    settings
        Level, runs, jobs.
    name
        How to call the target in reports.
    seed
        Of all seeds that the release is given.

    Returns
    -------
    Audited
    """
    settings = settings or Settings()
    return _audited(_Runner(release, seed, AUDIT, settings), pair, budget, settings, name or _name_of(release), 0)


def _name_of(release: Release) -> str:
    return str(getattr(release, "__name__", type(release).__name__))


def _audited(runner: _Runner, pair: DataPair, budget: Budget, settings: Settings, name: str, used: int) -> Audited:
    outcome = Audited(name, budget, pair, "out of scope", settings, used)
    reason = out_of_scope(pair)
    if reason:
        outcome.note = reason
        return outcome
    try:
        _search_and_test(runner, pair, budget, settings, outcome)
    except TargetHungError as error:
        outcome.verdict, outcome.note = "raised", str(error)
    return outcome


def _search_and_test(runner: _Runner, pair: DataPair, budget: Budget, settings: Settings, outcome: Audited) -> None:
    search = runner.both(pair, settings.search_runs)
    outcome.search_runs_used += 2 * settings.search_runs
    half = settings.search_runs // 2
    chosen = _chosen_events(
        [s.part(0, half) for s in search], [s.part(half, None) for s in search], budget, settings.events
    )
    shared = settings.level / len(chosen)
    outcome.detectable = _detectable(settings.test_runs, budget, shared)
    outcome.power = max(_planned_power(search, entry, budget, settings, shared) for entry in chosen)
    test = runner.both(pair, settings.test_runs)
    outcome.findings = [_finding(test, entry, budget, shared) for entry in chosen]
    outcome.timing = _timing(test)
    refuted = any(finding.refutes for finding in outcome.findings)
    outcome.verdict = "refuted" if refuted else "not refuted"
    if not refuted and all(not ({FAIL, RELEASED} & labels) for side in test for labels in side.labels):
        outcome.verdict, outcome.note = "raised", f"every run {', '.join(sorted(test[0].labels[0]))}"


Entry = tuple[float, Event, bool]


@np.errstate(all="ignore")  # likewise
def _counts(sides: Sequence[Sample], entry: Entry) -> tuple[int, int]:
    _, event, exchanged = entry
    one, two = (int(event.occurs(side).sum()) for side in sides)
    return (two, one) if exchanged else (one, two)


def _planned_power(search: Sequence[Sample], entry: Entry, budget: Budget, settings: Settings, level: float) -> float:
    p, q = (count / len(search[0].labels) for count in _counts(search, entry))
    return power(p, q, settings.test_runs, budget, level)


def _finding(test: Sequence[Sample], entry: Entry, budget: Budget, level: float) -> Finding:
    """Decide one event on the test runs. ``level`` is its share."""
    counts, runs = _counts(test, entry), len(test[0].labels)
    likely, unlikely = ("x'", "x") if entry[2] else ("x", "x'")
    one, two = (_interval(count, runs, level / 2) for count in counts)
    epsilon = lower_bound(*counts, runs, float(budget.delta), level)
    refutes = epsilon > budget.epsilon
    return Finding(entry[1].kind, entry[1].what, likely, unlikely, counts, runs, (one, two), epsilon, refutes)


def _timing(sides: Sequence[Sample]) -> dict[str, float]:
    found: dict[str, float] = {}
    for side, name in zip(sides, ("x", "x'"), strict=True):
        for label in (FAIL, RELEASED):
            flags = _label_event(label).occurs(side)
            if flags.any():
                found[f"{label} on {name}"] = float(np.median(side.seconds[flags]))
    return found


# Pairs ----------------------------------------------------------------------------------------------------------------


def generic_pairs(n: int, d: int, scale: float = 1.0) -> list[DataPair]:
    """Neighbours that a mechanism with a forgotten clip, a wrong sensitivity or a data-dependent scale cannot hide from."""
    steps = np.arange(n)
    corners = np.stack([np.where((steps >> (j % 16)) % 2, scale, -scale) for j in range(d)], axis=1).astype(float)
    starts = {"all zero": np.zeros((n, d)), "all equal": np.full((n, d), scale), "corners": corners}
    changes = {"zero": 0.0, "one unit": scale, "minus one unit": -scale, "far": 1e6 * scale, "overflowing": 1e300}
    found = []
    for start, x in starts.items():
        for change, value in changes.items():
            x_prime = x.copy()
            x_prime[0] = value
            if (x_prime != x).any():
                found.append(DataPair(x, x_prime, f"{start}, the first row becomes {change}"))
    return found


def outlier_values(lambda_0: Fraction) -> tuple[int, int, int]:
    """Bulk, high and low of an :class:`OutlierFamily` whose pairs (high, low) are just outliers of the covariance.

    High - low is r times the bulk with r^2 = 1.1 lambda_2k, so that every level removes the pair; high and low lie evenly on
    both sides of the rest, which keeps each as near to it as possible.
    """
    bulk = 64
    gap = math.ceil(bulk * math.sqrt(1.1 * 1.25 * lambda_0))
    high = bulk + (gap - bulk) // 2
    return bulk, high, high - gap


def quiet_rows(n: int) -> Floats:
    """Data of two values, n rows, every pair of rows the same: nothing in them is a reason to FAIL."""
    x = np.zeros((n, 1))
    x[: n // 2] = 64.0
    return x


def outlier_pair(family: OutlierFamily, n: int) -> DataPair:
    """The two data sets of a family with n rows, as :meth:`OutlierFamily.pair` builds them, but at once in float64."""
    m, j = n // 2, family.outliers
    x = np.zeros((n, 1))
    x[:j], x[j:m], x[m : m + j + 1] = family.high, family.bulk, family.low
    x_prime = x.copy()
    x_prime[j] = family.high
    values = f"{j} outliers ({family.high}, {family.low}) of the covariance, bulk ({family.bulk}, 0)"
    return DataPair(x, x_prime, f"n = {n}, {values}, and one more")


def steered_pairs(
    release: Release,
    budget: Budget,
    lambda_0: Real,
    n: int | None = None,
    settings: Settings | None = None,
    *,
    edition: Edition = REPAIRED,
    seed: int = 0,
) -> tuple[DataPair, int]:
    """The pair with the most promising number of outliers, and how many runs the search took.

    Doubles, then bisects, on the share of releases for the turn from release to FAIL; looks at every number from there until
    nothing is released any more; keeps the one with the largest ratio of FAIL or of release. n is the least that Algorithm 1
    takes, if not given.
    """
    settings, lam = settings or Settings(), as_rational("lambda_0", lambda_0)
    terms = {"epsilon": budget.epsilon, "delta": budget.delta, "lambda_0": lam, "edition": edition}
    rows: int = n or mean_parameters(0, 1, **terms).least_n  # type: ignore[arg-type]  # a dict of two types
    search = _Steering(_Runner(release, seed, STEERING, settings), budget, lam, rows, settings.probe_runs)
    return search.best(), search.used


class _Steering:
    """Search over the number of outliers of a family; every number is looked at once."""

    def __init__(self, runner: _Runner, budget: Budget, lambda_0: Fraction, n: int, runs: int) -> None:
        self.runner, self.budget, self.n, self.runs, self.used = runner, budget, n, runs, 0
        bulk, high, low = outlier_values(lambda_0)
        self.family = OutlierFamily(budget.epsilon, budget.delta, lambda_0, 0, bulk, high, low, 0)
        self.seen: dict[int, tuple[int, int]] = {}

    def pair(self, outliers: int) -> DataPair:
        return outlier_pair(replace(self.family, outliers=outliers), self.n)

    def releases(self, outliers: int) -> tuple[int, int]:
        """How many of the runs release on x and on x'."""
        if outliers not in self.seen:
            sides = self.runner.both(self.pair(outliers), self.runs)
            self.used += 2 * self.runs
            event = _label_event(RELEASED)
            one, two = (int(event.occurs(side).sum()) for side in sides)
            self.seen[outliers] = (one, two)
        return self.seen[outliers]

    def mostly_released(self, outliers: int) -> bool:
        return 2 * self.releases(outliers)[0] >= self.runs

    def merit(self, outliers: int) -> float:
        """The largest ratio of FAIL or of release that the probes suggest; two runs more keep small counts from winning."""
        one, two = self.releases(outliers)
        cases = ((one, two), (two, one), (self.runs - one, self.runs - two), (self.runs - two, self.runs - one))
        return max((p - float(self.budget.delta) * self.runs) / (q + 2) for p, q in cases)

    def best(self) -> DataPair:
        low, high = 0, 1
        while self.mostly_released(high) and 2 * high < self.n // 4:  # with very many of them they are outliers no more
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.mostly_released(middle) else (low, middle)
        for outliers in range(
            low, min(low + 40, self.n // 2 - 1)
        ):  # a private law falls slowly: then there is nothing to find further out
            if self.releases(outliers) == (0, 0):
                break
        return self.pair(max(self.seen, key=self.merit))


def audit_release(
    release: Release,
    pairs: Iterable[DataPair],
    budget: Budget,
    settings: Settings | None = None,
    *,
    name: str = "",
    seed: int = 0,
) -> Audited:
    """Audit a release on the most promising of several pairs: probes choose the pair, fresh runs the events, others test.

    Arguments as :func:`audit_pair`. Pairs that are no neighbours are left out; if none is left, the verdict is "out of scope".
    """
    settings = settings or Settings()
    runner, known = _Runner(release, seed, AUDIT, settings), list(pairs)
    if not known:
        raise ValueError("pairs must hold at least one pair of data sets")
    within = [pair for pair in known if out_of_scope(pair) is None]
    best, used = (within or known)[0], 0
    if len(within) > 1:
        try:
            merits = [_merit(runner, pair, budget, settings) for pair in within]
        except TargetHungError as error:
            return Audited(name or _name_of(release), budget, best, "raised", settings, note=str(error))
        best, used = within[int(np.argmax(merits))], 2 * settings.probe_runs * len(within)
    return _audited(runner, best, budget, settings, name or _name_of(release), used)


def _merit(runner: _Runner, pair: DataPair, budget: Budget, settings: Settings) -> float:
    sides, half = runner.both(pair, settings.probe_runs), settings.probe_runs // 2
    return _chosen_events([s.part(0, half) for s in sides], [s.part(half, None) for s in sides], budget, 1)[0][0]


# Habits of the randomness ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Habit:
    """A habit of a target's randomness: whether it was found, None where the target gave nothing to compare."""

    name: str
    found: bool | None
    what: str

    def __str__(self) -> str:
        word = {True: "FOUND", False: "not found", None: "could not be told"}[self.found]
        return f"{self.name}: {word}: {self.what}"


TRIES = 8  # calls until one releases


def _first_release(release: Release, x: Floats, seed: int | None = None) -> tuple[float, ...] | None:
    """The numbers of the first of a few calls that releases; None if none does."""
    tries = (_numbers(_quietly(release, x, seed)) for _ in range(TRIES))
    return next((values for values in tries if values), None)


def _quietly(release: Release, x: Floats, seed: int | None) -> Any:
    with warnings.catch_warnings(), _capture():
        warnings.simplefilter("ignore")  # only the numbers are compared here
        try:
            return release(x, seed)
        except (Exception, SystemExit):  # noqa: BLE001, RUF100 - exceptions are found by the audit; here they only give nothing to compare
            return None


def _told(one: object, two: object) -> bool | None:
    return None if one is None or two is None else one == two


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Python's and numpy's global generators at a seed, and as they were afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy state is what is looked for
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - likewise
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002 - likewise


def habits_of(release: Release, x: Floats, covariance: Release | None = None, *, seeds: int = 400) -> list[Habit]:
    """What the randomness of a release depends on that it should not.

    Parameters
    ----------
    release
        As for :func:`audit_pair`; called with seed None, which means unseeded.
    x
        Data on which it releases more often than not, and on which the releases are not all alike.
    covariance
        A second release, whose noise must be independent of the first one's with the same seed; None if there is none.
    seeds
        How many seeds the comparison of the two takes.
    """
    one, two = (_first_release(release, x) for _ in range(2))
    habits = [Habit("unseeded repeatability", _told(one, two), "two unseeded calls release the same numbers")]
    globally = []
    for _ in range(2):
        with _global_seed(0):
            globally.append(_first_release(release, x))
    depends = False if habits[0].found is False and globally[0] != globally[1] else _told(*globally)
    what = "after numpy's or Python's global generator is reseeded an unseeded call repeats itself"
    habits.append(Habit("global seed", depends, what))
    children = _forked(release, x)
    habits.append(Habit("fork reuse", _told(*children), "two forked processes release the same numbers"))
    if covariance is not None:
        habits.append(shared_noise(release, covariance, x, seeds=seeds))
    return habits


def _watched(release: Release, watch: Watch) -> Release:
    def call(x: Floats, seed: int | None) -> Any:
        with watch:
            return release(x, seed)

    return call


def _habits_watched(task: tuple[Release, Floats, Release | None], watch: Watch) -> list[Habit]:
    """What a worker does."""
    release, x, covariance = task
    return habits_of(_watched(release, watch), x, None if covariance is None else _watched(covariance, watch))


def habits_within(seconds: float, release: Release, x: Floats, covariance: Release | None = None) -> list[Habit]:
    """As :func:`habits_of`, in a process of its own and with a time limit for every call; releases must be picklable."""
    with Pool(_habits_watched, 1, seconds) as pool:
        ((_, answer),) = pool.run([(release, x, covariance)])
    if isinstance(answer, Lost):
        return [Habit("habits", None, f"the target {answer.why}: {answer.detail}")]
    found: list[Habit] = answer
    return found


def _forked(release: Release, x: Floats) -> list[tuple[float, ...] | None]:
    """What two children of this process release, unseeded; None each where the system cannot fork."""
    try:
        context = get_context("fork")
    except ValueError:
        return [None, None]
    answers = []
    for _ in range(2):
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=_answer, args=(send, release, x), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads; the child only computes
            child.start()
        send.close()
        answers.append(receive.recv() if receive.poll(60) else None)
        child.kill()
        child.join()
        child.close()
        receive.close()
    return answers


def _answer(send: Any, release: Release, x: Floats) -> None:
    send.send(_first_release(release, x))


def shared_noise(
    mean: Release, covariance: Release, x: Floats, *, seeds: int = 400, level: float = 1e-3, permutations: int = 9999
) -> Habit:
    """Whether two releases with the same seed are dependent: an exact permutation test of the largest rank correlation.

    Compared are the ranks of every number of the first, and of its distance from the median, with every number of the second.
    The p-value accounts for all of them, since it is that of their maximum.
    """
    drawn = [(_numbers(_quietly(mean, x, s)), _numbers(_quietly(covariance, x, s))) for s in range(seeds)]
    both = [(a, b) for a, b in drawn if a and b]
    if len(both) < 20:
        return Habit("shared noise", None, f"only {len(both)} of {seeds} seeds gave both releases")
    first, second = (np.array(side) for side in zip(*both, strict=True))
    first = np.hstack([first, np.abs(first - np.median(first, axis=0))])
    a, b = _standard_ranks(first), _standard_ranks(second)
    largest = float(np.abs(a.T @ b).max())
    generator = np.random.default_rng(0)
    at_least = sum(
        float(np.abs(a[generator.permutation(len(a))].T @ b).max()) >= largest - 1e-12 for _ in range(permutations)
    )
    p = (1 + at_least) / (permutations + 1)
    return Habit(
        "shared noise",
        p <= level,
        f"rank correlation {largest:.3f} over {len(both)} seeds, p = {p:.4f}, level {level:g}",
    )


def _standard_ranks(values: Floats) -> Floats:
    ranks = np.asarray(stats.rankdata(values, axis=0), dtype=np.float64)
    ranks -= ranks.mean(axis=0)
    return np.asarray(ranks / np.maximum(np.linalg.norm(ranks, axis=0), 1e-300))
