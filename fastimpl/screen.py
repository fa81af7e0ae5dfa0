"""Which level a row enters at, from its distance to a centre: the float screen of the mean stage.

With rho_i = |x_i - c| and r_j = |R_j - c| in whitened coordinates, |rho_i - r_j| <= |x_i - R_j| <= rho_i + r_j settles nearly
all rows; only for the others, and only for reference rows that are neither surely near nor surely far, inner products are
computed, first of some coordinates and, where these do not do, of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.certified import Lengths, Whitening
from fastimpl.limits import Thresholds
from fastimpl.rows import Centred, Floats, Indices, Vectors, narrowest, require_finite

__all__ = ["OPEN", "Screen", "centre_of", "first_true", "tight_centre"]

_MEDOIDS = 256  # reference rows whose middle is sought
_OF_MEDOIDS = 4  # one in so many of them is tried as the medoid
_STEPS, _DELAY = 24, 32  # towards the longest reference rows; the first is 1/32 of the way
OPEN = -1  # stands for a level that bounds leave open
_BATCH = 8192
_CHUNK = 512  # rows whose products are counted together, at most
_PRODUCTS = 5 << 17  # of them: fewer rows for many reference rows
_FEW_PRODUCTS = 1 << 16  # of them: what is worth a call of BLAS
_OUTLIERS = 64  # times the bar: squared lengths of rows that sums leave out at once, as they will mostly in the end
_EIGHTHS = (2, 4, 6)  # of the coordinates: partial products
_PARTS_FROM = 32  # columns from which these pay
_DEVIATIONS = 4  # standard deviations that a partial product leaves room for
_SAFE = 1 - 2.0**-46  # covers a handful of roundings, as ``certified._ROUNDING`` does


def centre_of(points: Floats, whitening: Whitening) -> Floats:
    """A centre of the reference rows that moves with them under affine maps: the mean of three quarters about a medoid.

    Any centre gives right answers; this one leaves few products to compute.
    """
    if not len(points):
        return np.zeros(points.shape[1])
    some = points[:: -(-len(points) // _MEDOIDS)]
    z, _ = certified.whiten(Vectors((some,), (np.broadcast_to(some[0], some.shape),)), whitening)
    squares = np.einsum("ij,ij->i", z, z)
    tried = slice(None, None, _OF_MEDOIDS)
    distances = squares[tried, None] + squares - 2 * (z[tried] @ z.T)
    distances[np.isnan(distances)] = np.inf
    best = int(np.argmin(np.partition(distances, len(some) // 2, axis=1)[:, len(some) // 2]))
    medoid, count = some[_OF_MEDOIDS * best], max(1, 3 * len(some) // 4)
    nearest = np.argpartition(distances[best], count - 1)[:count]
    mean = medoid + np.mean(some[nearest] - medoid, axis=0)
    return np.asarray(mean if np.isfinite(mean).all() else medoid)


def tight_centre(points: Floats, whitening: Whitening, limits: Thresholds, allowed: Indices) -> Floats:
    """A centre about which the longest reference rows are shorter, so that the lengths of more rows settle their levels.

    From :func:`centre_of` small steps towards the farthest lead to the middle of the least ball that holds all but as many
    as may be far at the least level that most rows reach (Badoiu and Clarkson, Smaller core-sets for balls, 2003). How
    far z_i is from c shows in |z_i|^2 - 2 z_i.c = |z_i - c|^2 - |c|^2. A guess, for speed only.
    """
    centre = centre_of(points, whitening)
    if not len(points):
        return centre
    z, _ = certified.whiten(Vectors((points,), (np.broadcast_to(centre, points.shape),)), whitening)
    squares = np.einsum("ij,ij->i", z, z)
    rising, ranks = np.sort(squares), len(points) - 1 - np.clip(allowed, 0, len(points) - 1)  # NaN last
    reached = np.sqrt(limits.below) - np.sqrt(rising[ranks]) >= math.sqrt(rising[len(points) // 2])
    if not reached.any():
        return centre
    rank = int(ranks[reached.argmax()])
    lifted, shares = np.column_stack([squares, -2 * z]), np.zeros(len(points))
    moved = np.zeros(1 + z.shape[1])
    moved[0] = 1.0
    for step in (1 / (_DELAY + np.arange(_STEPS))).tolist():
        far = np.argpartition(np.dot(lifted, moved), rank)[rank]
        moved[1:] += step * (z[far] - moved[1:])
        shares *= 1 - step
        shares[far] += step
    some, longest = shares.nonzero()[0], np.partition(np.dot(lifted, moved), rank)[rank] + moved[1:] @ moved[1:]
    found = centre + shares[some] @ (points[some] - centre)
    return found if np.isfinite(found).all() and longest < rising[rank] else centre


class _Batch(NamedTuple):
    """Rows by rising length, with bounds on it."""

    z: NDArray[Any]
    squares: Floats
    radius: Floats  # the greatest length
    shortest: Floats

    def take(self, part: Indices) -> _Batch:
        """Some of the rows."""
        return _Batch(self.z.take(part, axis=0), self.squares[part], self.radius[part], self.shortest[part])

    def part(self, first: int, last: int) -> _Batch:
        """Some consecutive rows."""
        return _Batch(*(column[first:last] for column in self))


class Screen:
    """Bounds on the level of every row, from lengths and inner products of whitened rows.

    *Statement, lengths.* Let D_ij = |W* S (x_i - R_j)|, so that D^2/(1 + epsilon) <= form <= D^2/(1 - epsilon), and let
    rho_i, r_j lie in [lo, hi] (``Lengths``, ``whiten``). D_ij <= hi_i + hi_j, and D_ij >= lo_i - hi_j, lo_j - hi_i. With
    near_ell^2 = (1 - epsilon) limit_ell and far_ell^2 = (1 + epsilon) limit_ell, rounded to the safe side: at level ell at
    most ``allowed`` reference rows are far if hi_i <= near_ell - (the (allowed+1)-th largest hi_j); more are if
    lo_i > far_ell + (the (allowed+1)-th smallest hi_j), or if hi_i < (the (allowed+1)-th largest lo_j) - far_ell. Running
    maxima and minima over the levels make these limits monotone, on the safe side. A length that is not a number or infinite
    has hi = infinity and, since v^T G^-1 v >= v_l^2/G_ll for each coordinate, lo = max_l |S v|_l/g_l.

    The levels are written to an array of zeros, if one is given.
    """

    def __init__(
        self,
        rows: Centred,
        reference: Indices,
        whitening: Whitening,
        limits: Thresholds,
        allowed: Indices,
        levels: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        self.rows, self._allowed, self._whitening = rows, allowed, whitening
        count = len(limits.exact)
        self._near = np.sqrt(limits.below * (1 - whitening.epsilon)) * _SAFE
        self._far = np.sqrt(limits.above * (1 + whitening.epsilon)) / _SAFE
        z = self._set_reference(rows.take(reference))
        self._set_limits()
        middle = self._hi[(len(self._hi) - 1) // 2 : len(self._hi) // 2 + 1]  # they rise
        typical = float(middle.mean()) if len(middle) else 0.0
        self._bulk = min(int(np.searchsorted(self._inner, typical)), count - 1)
        below = self._inside[self._bulk - 1] if self._bulk else np.inf
        bar = max(min(float(self._inner[self._bulk]), float(below)), 0.0) * _SAFE
        scale = max(bar, typical if math.isfinite(typical) else 0.0)
        self.lengths = Lengths(rows, whitening, limit=scale**2 if 0 < scale < 2.0**400 else 1.0)
        self._bar = self.lengths.bar(bar**2 if bar < 2.0**400 else 1.0)
        self._cut = _OUTLIERS * self._bar if self._bar > 0 else math.inf
        self._products = _Products(z, self._hi, self._lo, self.lengths, self._near, self._far)
        self.levels = np.zeros(len(rows), dtype=narrowest(count)) if levels is None else levels
        self.cleared = np.zeros((-(-len(rows) // rows.step), -(-rows.step // 8)), dtype=np.uint8)
        self.forget()

    def _set_reference(self, vectors: Vectors) -> Floats:
        """Whitened reference rows by rising length, and bounds on the lengths."""
        z, error = certified.whiten(vectors, self._whitening)
        norm, d = np.sqrt(np.einsum("ij,ij->i", z, z)), z.shape[1]
        slack = certified.length_error(d, certified.UNIT_ROUNDOFF)  # as in certified.norm_bounds
        known = np.isfinite(norm) & np.isfinite(error)
        lo = norm * (1 - slack) - error * (1 + slack) - certified.underflow_error(d)
        if not known.all():
            lo[~known] = _coordinate_length(vectors.take(np.flatnonzero(~known)), self._whitening)
        hi = np.where(known, (norm + error) * (1 + slack) + certified.underflow_error(d), np.inf)
        self.order = order = np.lexsort((lo, hi))
        self._lo, self._hi = np.maximum(lo[order], 0.0), hi[order]
        return z[order]

    def _set_limits(self) -> None:
        """For each level the lengths up to which a row is surely in, and those beyond or below which it surely is not."""
        points = len(self._hi)
        some = (self._allowed >= 0) & (self._allowed < points)
        rank = np.where(some, self._allowed, 0)
        falling, rising, falling_lo = self._hi[::-1], self._hi, np.sort(self._lo)[::-1]
        always = np.where(self._allowed < 0, -np.inf, np.inf)
        inner, outer, inside = always.copy(), always.copy(), np.full(len(rank), -np.inf)
        if points:
            inner[some] = (self._near - falling[rank])[some] * _SAFE - 2.0**-400
            outer[some] = (self._far + rising[rank])[some] / _SAFE
            inside[some] = (falling_lo[rank] - self._far)[some] * _SAFE
        self._inner = np.maximum.accumulate(inner)
        self._outer = np.maximum.accumulate(outer)
        self._inside = np.minimum.accumulate(inside)

    def split(self) -> Screen:
        """A screen that fills the same levels, for blocks of its own: what one thread works with."""
        other = copy(self)
        other.lengths = self.lengths.split()
        other.forget()
        return other

    def forget(self) -> None:
        """Count as if no row had been taken."""
        self.doubtful = 0
        self._kept: list[tuple[Indices, NDArray[Any], NDArray[Any]]] = []
        self._held = self._seen = 0
        self._least = np.zeros(len(self._near) + 1, dtype=np.int64)

    def take(self, block: slice) -> None:
        """Work on a block of rows: settle those that are within the bar, keep the others, clear what is far beyond.

        ValueError for rows that are not finite: they have no length.
        """
        q = self.lengths.of(block)
        if self._bulk:
            self.levels[block] = self._bulk
        rest = (~(q <= self._bar)).nonzero()[0]  # NaN included
        if not len(rest):
            return
        q = q[rest]
        self._kept.append((rest + block.start, self.lengths.z.take(rest, axis=0), q))
        longest = np.maximum.reduce(q)
        if not math.isfinite(longest):
            require_finite("x", self.rows.points[block.start + rest[~np.isfinite(q)]])
        if not longest <= self._cut:  # NaN included
            out = ~(q <= self._cut)
            self.lengths.rows[rest[out]] = 0.0
            self._remember(block, rest[out])
        self._held += len(rest)
        if self._held >= _BATCH:
            self.settle()

    def _remember(self, block: slice, out: Indices) -> None:
        """What has been cleared in a block: a bit a row."""
        mask = np.zeros(self.rows.step, dtype=bool)
        mask[out] = True
        self.cleared[block.start // self.rows.step] = np.packbits(mask)

    def settle(self) -> None:
        """Settle the rows that are kept by their lengths and, where these do not do, by inner products."""
        if not self._kept:
            return
        index, z, q = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        self._kept, self._held = [], 0
        order = np.argsort(q)  # NaN last
        index, q = index[order], q[order]
        lo, hi = self.lengths.enclosed(q)
        batch = _Batch(z.take(order, axis=0), q.astype(np.float64), hi, lo)
        self._seen += len(index)
        tried, sure = self._sure(batch)
        if sure.any():
            self._least[tried] += np.count_nonzero(sure)
            if tried != self._bulk:
                self.levels[index[sure]] = tried
            rest = (~sure).nonzero()[0]
            index, batch = index[rest], batch.take(rest)
        least, most = self._by_lengths(index, batch)
        unsure = ((least < most) & np.isfinite(batch.radius)).nonzero()[0]
        if unsure.size:
            some = batch.take(unsure), least[unsure], most[unsure]
            least[unsure], most[unsure] = self._products.levels(*some, self._allowed, tried)
        doubt = least < most
        self.doubtful += int(np.count_nonzero(doubt))
        self.levels[index] = np.where(doubt, OPEN, least)
        self._least += np.bincount(least, minlength=len(self._least))

    def _sure(self, batch: _Batch) -> tuple[int, NDArray[np.bool_]]:
        """The least level that any row can be in, -1 if that is of no use, and which rows are sure to be in: mostly nearly all.

        Of those no more need be known. *Statement.* At a level with a negative number of far reference rows allowed nobody is
        in; at the first other level a row is, if it is surely near all reference rows but as many as are allowed.
        """
        level = int((self._allowed >= 0).argmax())  # 0 if there is none
        sure = np.zeros(len(batch.radius), dtype=bool)
        if not self._products.tells(level, self._allowed):
            return -1, sure
        short = int(np.searchsorted(batch.radius, self._inner[level], side="right"))
        known = int(np.searchsorted(batch.radius, np.inf))
        last = int(np.searchsorted(batch.shortest[:known], self._outer[level], side="right"))  # the others are not in
        sure[:short] = True
        sure[short:last] = ~self._products.beyond(batch.part(short, last), level)
        return level, sure

    def _by_lengths(self, index: Indices, batch: _Batch) -> tuple[Indices, Indices]:
        """Least and greatest possible level of each row, as far as lengths tell."""
        lo, hi = batch.shortest, batch.radius
        lost = np.flatnonzero(~np.isfinite(hi))
        if lost.size:
            lo[lost] = _coordinate_length(self.rows.take(index[lost]), self._whitening)
        inside = len(self._inside) - np.searchsorted(self._inside[::-1], hi, side="right")
        return np.maximum(np.searchsorted(self._outer, lo), inside), np.searchsorted(self._inner, hi)

    def bounds(self, rows: Floats) -> tuple[Floats, Floats]:
        """Bounds on D_ij^2 for a few rows and all reference rows, in ``order``, which compare with ``limits``."""
        lengths = self.lengths.among(Centred(rows, self.rows.centre))
        q = lengths.of(slice(0, len(rows)))
        return self._products.bounds(lengths.z, q, np.isfinite(lengths.enclosed(q)[1]))

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """For each level what D_ij^2 is surely near up to, and what it is surely far beyond."""
        return self._products.limits

    @property
    def decider(self) -> str:
        """Who decides the levels, for an audit: "count" where the numbers of reference rows allowed do, without a distance."""
        first, last = (int(np.count_nonzero(self._allowed < bar)) for bar in (0, len(self._hi)))
        return "count" if first == last else "float"

    def missing(self) -> Indices:
        """For each level, how many of the rows settled so far are surely not in."""
        return np.asarray(self._seen - np.cumsum(self._least)[:-1])


def _coordinate_length(vectors: Vectors, whitening: Whitening) -> Floats:
    """Lower bounds on |W* S v| from the coordinates of v, which may overflow: see :class:`Screen`."""
    with np.errstate(all="ignore"):
        scaled = np.ldexp(np.fmin(np.abs(vectors.rounded()), 2.0**1023), whitening.shift)
        ratio = np.fmin(scaled / (1.01 * whitening.size), 2.0**1000)
    return np.asarray(ratio.max(axis=1, initial=0.0) * (math.sqrt(1 - whitening.epsilon) * _SAFE))


class _Products:
    """Bounds on D_ij^2 from inner products of whitened rows.

    *Statement.* |D^2 - |zhat_i - rhat_j|^2| <= 4.2 relative (rho_i^2 + r_j^2), since D differs from |zhat_i - rhat_j| by at
    most relative (rho_i + r_j) (1 + small). The product [rho^2 + slack, 1, -2 zhat][1, r^2 + slack, rhat]^T has d + 2 terms
    and errs by at most 2 gamma_{d+5} (rho^2 + r^2), rho^2 and r^2 themselves by gamma_{d+2}. So with s = 5 relative +
    4 (d + 16) u and slack = s rho_i^2 (and s r_j^2) the product is an upper bound on D_ij^2, and a lower one once twice the
    slacks are taken off; u is 2^-24 where the lengths are in float32, whose ``relative`` is then used. Underflow: d + 2
    products and twice d squares are off by 2^-1075 (2^-150) each, and what underflow adds to two vectors is kept apart as in
    ``Lengths``, so four times its ``tiny`` is added to each slack.

    *Part of the coordinates.* With z = (z', z''), z.r >= z'.r' - |z''||r''|: the first coordinates and a length of the
    others, as one more coordinate, give an upper bound on D^2, with the same slack: lengths err by gamma_{d/2+2}, there are
    d + 3 terms at most (others are zero, or not numbers), and (2 (d + 5) + (d + 2) + (d/2 + 2)) u is below 4 (d + 16) u, by
    a = (d/2 + 50) u. Squares of at most 3 d/4 other coordinates may underflow: a length is then off by
    h <= (3 d/4 2^-1075)^(1/2), and the product of two by 2 h (rho + r) + 2 h^2 <= a (rho^2 + r^2) + 2 h^2/a + 2 h^2, where
    2 h^2/a < 2^-1020 (2^-124 in float32): with room to spare that is in each slack.
    """

    def __init__(self, z: Floats, hi: Floats, lo: Floats, lengths: Lengths, near: Floats, far: Floats) -> None:
        self._finite = int(np.searchsorted(hi, math.ldexp(2.0**40, -lengths.power) if lengths.single else 2.0**400))
        self._hi, self._lo, self._near, self._far = hi, lo, near, far
        self._chunk = max(16, min(_CHUNK, _PRODUCTS // max(1, self._finite)))
        d = z.shape[1]
        self._s = certified.product_error(d, lengths.unit, lengths.relative)
        self._tiny = (2.0**-124 if lengths.single else 2.0**-1020) + 4 * lengths.tiny / lengths.factor
        self._kind: type[np.floating[Any]] = np.float32 if lengths.single else np.float64
        self._r: NDArray[Any] = np.ldexp(z[: self._finite], lengths.power).astype(self._kind)
        squares = np.sum(self._r.astype(np.float64) ** 2, axis=1)
        self._squares = squares
        self._slack = self._s * squares + self._tiny
        self._upper = near**2 / lengths.factor * _SAFE
        self._lower = far**2 / lengths.factor / _SAFE
        self._parts = [share * d // 8 for share in _EIGHTHS] if d >= _PARTS_FROM else []
        # The columns are those of _lefts.
        self._right = np.column_stack([np.ones(self._finite), squares + self._slack, self._r]).astype(self._kind)
        self._rights = []
        for number, part in enumerate(self._parts):
            tails = np.zeros((self._finite, len(self._parts) - number), dtype=self._kind)
            tails[:, 0] = _tail(self._r, part)
            self._rights.append(np.column_stack([tails, self._right[:, : 2 + part]]))

    def tells(self, level: int, allowed: Indices) -> bool:
        """Whether products can tell that a row is in at a level: as many may be far as have none."""
        return bool(allowed[level] >= len(self._hi) - self._finite)

    def beyond(self, batch: _Batch, level: int) -> NDArray[np.bool_]:
        """Which rows are not surely near all the reference rows that have products, at a level."""
        return self._beyond_limit(batch, self._s * batch.squares + self._tiny, level, float(self._upper[level]))

    def levels(
        self, batch: _Batch, least: Indices, most: Indices, allowed: Indices, tried: int
    ) -> tuple[Indices, Indices]:
        """Least and greatest possible level of each row of a batch, from those that lengths tell; ``beyond`` was ``tried``."""
        first = int(least.min())
        slack = self._s * batch.squares + self._tiny
        allowed_most = allowed - (len(self._hi) - self._finite)
        goal = max(first, int(np.searchsorted(allowed_most, 0)))
        rest = np.arange(len(least))
        if tried < goal < len(self._near):
            far = self._beyond_limit(batch, slack, first, float(self._upper[goal]))
            most[~far] = np.minimum(most[~far], goal)
            rest = np.flatnonzero(far | (least < goal))
        for start in range(0, len(rest), self._chunk):
            part = rest[start : start + self._chunk]
            low, high = self._counted(batch.take(part), int(least[part].min()), slack[part], allowed, allowed_most)
            least[part], most[part] = np.maximum(least[part], low), np.minimum(most[part], high)
        return least, np.maximum(most, least)

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """As :attr:`Screen.limits`."""
        return self._upper, self._lower

    def bounds(self, z: NDArray[Any], q: NDArray[Any], known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Bounds on D_ij^2; nothing is said of rows that are not known, nor of reference rows that are not."""
        squares = q.astype(np.float64)
        slack = self._s * squares + self._tiny
        *_, left = self._lefts(z, squares + slack)
        lower, upper = (np.full((len(z), len(self._hi)), side) for side in (-np.inf, np.inf))
        upper[:, : self._finite] = left @ self._right.T
        lower[:, : self._finite] = upper[:, : self._finite] - 2 * (slack[:, None] + self._slack)
        lower[~known], upper[~known] = -np.inf, np.inf
        return lower, upper

    def _start(self, radius: Floats, first: int) -> int:
        """Reference rows before this one are surely near, at level ``first``, to rows of these lengths, which rise."""
        inner = self._near[first] * _SAFE - float(radius[-1])
        return min(int(np.searchsorted(self._hi, inner, side="right")), self._finite)

    def _runs(self, radius: Floats, first: int) -> Iterator[tuple[slice, int]]:
        """Rows that are multiplied together, and the first reference row for them: more of those that need few of these."""
        begin = 0
        while begin < len(radius):
            stop = min(len(radius), begin + 2 * self._chunk)
            start = self._start(radius[:stop], first)
            while stop < len(radius):
                more = min(len(radius), 2 * stop - begin)
                earlier = self._start(radius[:more], first)
                if (more - begin) * (self._finite - earlier) > _FEW_PRODUCTS:
                    break
                stop, start = more, earlier
            yield slice(begin, stop), start
            begin = stop

    def _beyond_limit(self, batch: _Batch, slack: Floats, first: int, limit: float) -> NDArray[np.bool_]:
        """Which rows are not surely within ``limit`` of all reference rows that are not surely near."""
        far = np.zeros(len(slack), dtype=bool)
        own = batch.squares + slack
        *lefts, whole = self._lefts(batch.z, own)
        for rows, start in self._runs(batch.radius, first):
            cuts = self._cuts(float(own[rows][-1]), start, limit)
            unsure = np.zeros(rows.stop - rows.start, dtype=bool)
            for right, some, low, high in zip(self._rights, lefts, cuts, cuts[1:], strict=False):
                unsure |= _over(some[rows], right[low:high], limit)
            out = _over(whole[rows], self._right[cuts[-1] :], limit)
            again = np.flatnonzero(unsure & ~out)
            out[again] = _over(whole[rows.start + again], self._right[start : cuts[-1]], limit)
            far[rows] = out
        return far

    def _lefts(self, z: NDArray[Any], own: Floats) -> list[NDArray[Any]]:
        """The left factors of products with ``_rights`` and with ``_right``: columns of one array.

        Those of a part go from its own to its last coordinate; the columns of other parts meet zeros.
        """
        count = len(self._parts)
        left = np.empty((len(z), count + 2 + z.shape[1]), dtype=self._kind)
        for number, part in enumerate(self._parts):
            left[:, number] = 2 * _tail(z, part)
        left[:, count], left[:, count + 1] = own, 1.0
        np.multiply(z, -2, out=left[:, count + 2 :], casting="same_kind")
        return [*(left[:, i : count + 2 + part] for i, part in enumerate(self._parts)), left[:, count:]]

    def _cuts(self, own: float, start: int, limit: float) -> list[int]:
        """For each part of the coordinates the reference rows, from the nearest on, for which it is likely to do.

        A guess, for speed only: with a share s of the coordinates z'.r' is about 0 +- |z||r|(s/d)^(1/2), and |z''||r''| about
        (1 - s)|z||r|. Solved for the largest |r| whose bound is below the limit.
        """
        d, cuts = self._r.shape[1], [start]
        for part in self._parts:
            share = part / d
            half = math.sqrt(max(own, 0.0)) * (1 - share + _DEVIATIONS * math.sqrt(share / d))
            room = half**2 + limit - own
            longest = math.sqrt(room) - half if room > half**2 else 0.0
            cut = int(np.searchsorted(self._squares, longest**2)) if math.isfinite(longest) else self._finite
            cuts.append(max(cuts[-1], cut))
        return cuts

    def _counted(
        self, batch: _Batch, first: int, slack: Floats, allowed: Indices, allowed_most: Indices
    ) -> tuple[Indices, Indices]:
        """Levels from the pairs that are not surely near at the least level."""
        count = len(self._upper)
        start, radius = self._start(batch.radius, first), float(batch.radius[-1])
        beyond = self._lo[self._finite :] > (radius + self._far[-1]) / _SAFE
        allowed_least = allowed - int(np.count_nonzero(beyond))
        least, most = np.full(len(slack), count, dtype=np.int64), np.full(len(slack), count, dtype=np.int64)
        *_, left = self._lefts(batch.z, batch.squares + slack)
        upper: NDArray[Any] = left @ self._right[start:].T
        twice = 2 * (slack[:, None] + self._slack[start:])
        out = np.count_nonzero(upper - twice > self._lower[-1], axis=1)
        inner = np.flatnonzero(out <= allowed_least[-1])
        over = np.flatnonzero((upper if len(inner) == len(upper) else upper[inner]) > self._upper[first])
        row, column = np.divmod(over, upper.shape[1])  # sooner than in two dimensions
        pair = upper[inner[row], column].astype(np.float64)
        least_pair = np.searchsorted(self._lower, pair - twice[inner[row], column])
        least[inner] = _levels_from_pairs(row, least_pair, len(inner), allowed_least)
        most[inner] = _levels_from_pairs(row, np.searchsorted(self._upper, pair), len(inner), allowed_most)
        return least, most


def _over(left: NDArray[Any], right: NDArray[Any], limit: float) -> NDArray[np.bool_]:
    """Which rows of left right^T have an entry that is not at most ``limit``."""
    if not (len(left) and len(right)):
        return np.zeros(len(left), dtype=bool)
    return np.asarray(~((right @ left.T).max(axis=0) <= limit))  # numpy is quick at the first axis; NaN included


def _tail(z: NDArray[Any], part: int) -> Floats:
    """Lengths of vectors without their first coordinates."""
    tail = z[:, part:]
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", tail, tail)), dtype=np.float64)


def _levels_from_pairs(row: Indices, pair_level: Indices, rows: int, allowed: Indices) -> Indices:
    """For each row the least ell at which at most allowed[ell] of its pairs are of a level above ell; others are near."""
    top, count = int(pair_level.max(initial=0)), len(allowed)
    if top < count and allowed[top] >= 0:  # there everybody is in
        count = top + 1
    table = np.bincount(row * (count + 1) + pair_level, minlength=rows * (count + 1)).reshape(rows, count + 1)
    far = table.sum(axis=1, keepdims=True) - np.cumsum(table, axis=1)[:, :count]
    return first_true(far <= allowed[:count])


def first_true(inside: NDArray[np.bool_]) -> Indices:
    """For each row the index of its first true entry, or the number of columns if there is none."""
    found = inside.argmax(axis=1)
    levels: Indices = np.where(inside[np.arange(len(inside)), found], found, inside.shape[1]).astype(np.int64)
    return levels
