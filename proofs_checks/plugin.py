"""Statements of the paper as tests of pytest: of an implementation that is named, or inside a library's own tests.

PYTEST_DONT_REWRITE (there is no assert here whose failure would need to be explained)

    pytest --pyargs proofs_checks --dp-target package.module:attribute

collects one test for each statement and target; ``exec:COMMAND`` is a target in any language. In a library's own tests::

    from proofs_checks.plugin import Statement, check_target, statements

    def test_covariance() -> None:
        check_target(mylibrary, "covariance_score_sensitivity", rounding="1e-9")

    @statements(mylibrary, rounding="1e-9")  # one test for each statement about what mylibrary has
    def test_the_paper(dp_statement: Statement) -> None:
        dp_statement()

A target that is given by name is loaded and run in a worker process, where it may hang or crash without taking the tests down;
an object that is given runs here, like everything else in a library's own tests.

Statements about numbers alone need no target and are left to ``bhs23-audit``. pytest loads this module in every run, so
nothing heavier than pytest is imported before somebody asks for a statement.
"""

from __future__ import annotations

import atexit
import difflib
import os
import platform
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from proofs_checks.audit import Outcome
    from proofs_checks.lemma import Lemma
    from proofs_checks.target import Target
    from proofs_checks.workers import Pool

__all__ = ["Statement", "check_target", "dp_target", "statements"]

_COLLECTED = Path(__file__).with_name("test_target.py")

TIME_LIMIT = 60.0
"""Seconds that one call of a target that is named may take, if nothing else is said."""


# For a library's own tests --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """A statement about a target: call it, and it raises what pytest shows where the statement does not hold."""

    check: Lemma
    target: Target
    profile: str = "quick"
    seed: int = 0
    pool: Pool | None = None

    def __str__(self) -> str:
        return f"{self.check.name}-{self.target.name}"

    def __call__(self) -> Outcome:
        """Run the check.

        Returns
        -------
        Outcome
            If the statement held, or was refuted as the errata say.

        Raises
        ------
        pytest.skip.Exception
            If the target lacks a function, or the check cannot run here.
        pytest.fail.Exception
            If the statement was refuted, or the target raised: the message holds the counterexample whole.
        AuditError
            If the audit itself is broken, which no excuse covers.
        """
        __tracebackhide__ = True
        outcome = self.run()
        if outcome.verdict in {"not provided", "not run"}:
            pytest.skip(f"{outcome.verdict}: {outcome.note}")
        return outcome

    def run(self) -> Outcome:
        """As a call, but an outcome that says "not provided" or "not run" is returned too."""
        __tracebackhide__ = True
        from proofs_checks.collect import Run, outcome_of  # noqa: PLC0415 - loaded in every run of pytest

        seconds = None if self.pool is None else self.pool.seconds
        how = Run(self.profile, self.seed, seconds=seconds or TIME_LIMIT, pool=self.pool)
        outcome = outcome_of(self.check, self.target, how)
        if not outcome.is_as_expected:
            pytest.fail(_explain(outcome), pytrace=False)
        return outcome


def _explain(outcome: Outcome) -> str:
    """The counterexample whole, for a person to read and to paste."""
    check, target = outcome.check, outcome.target
    lines = [f"{check.item} on {target.name}, {target.edition.name}: {outcome.verdict}", check.statement, ""]
    if outcome.verdict == "held":
        lines.append("It is known to be false as printed, and was not refuted.")
    else:
        lines.append(f"claim: {outcome.claim}" if outcome.claim else _what_it_did(outcome.note))
        if outcome.departure is not None:
            lines.append(f"first departure from refimpl: {outcome.departure}")
        if outcome.case is not None:  # of a target that is not asked any more there is none
            lines += ["", outcome.case.paste()]
    return "\n".join(lines)


def _what_it_did(note: str) -> str:
    """That it hangs is a sentence; an exception needs one."""
    return note if note.startswith(("the target", "lost")) else f"the target raised {note}"


def check_target(
    implementation: Any,
    *names: str,
    rounding: str | float | Fraction | None = None,
    edition: str = "REPAIRED",
    profile: str = "quick",
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
) -> list[Outcome]:
    """Check statements on an implementation, inside a test.

    Parameters
    ----------
    implementation
        An object with some of the functions of :class:`proofs_checks.target.Implementation`, or the name of one,
        "package.module:attribute" or "exec:COMMAND".
    names
        Checks by name or by item ("Lemma 26"), each of which the implementation must have the functions for; all those that it
        does have them for where none is given.
    rounding
        Relative allowance for claims about rounded numbers; what the implementation says of itself if None.
    edition, profile, seed
        Whose constants and rules; how much is run; seed of the search.
    time_limit
        Seconds that one call of an implementation that is given by name may take.

    Returns
    -------
    list of Outcome
        One for each statement, in order.

    Raises
    ------
    pytest.fail.Exception
        At the first statement that is refuted or at which the implementation raises, or if it has nothing to check.
    ValueError
        For an unknown name, edition or profile.
    """
    __tracebackhide__ = True
    pool = _standing_pool(time_limit)
    target = _target(implementation, edition, rounding, pool)
    _check_profile(profile)
    checks = _checks(names) if names else [check for check in _checks() if target.provides(check.needs)]
    for check in checks:
        lacking = [name for name in check.needs if not target.provides([name])]
        if lacking:
            pytest.fail(f"{target.name} does not have {', '.join(lacking)}, which {check.name} needs", pytrace=False)
    if not checks:
        pytest.fail(f"{target.name} has none of the functions that the statements are about", pytrace=False)
    return [Statement(check, target, profile, seed, pool).run() for check in checks]


def statements(
    implementation: Any,
    *names: str,
    rounding: str | float | Fraction | None = None,
    edition: str = "REPAIRED",
    profile: str = "quick",
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
    excuses: Mapping[str, str] | None = None,
) -> pytest.MarkDecorator:
    """Decorate a test that takes ``dp_statement``, to be run once for each statement.

    Parameters
    ----------
    implementation, names, rounding, edition, profile, seed, time_limit
        As for :func:`check_target`, but what the implementation lacks is skipped.
    excuses
        Why statements are known not to hold, by name. Strict: an excused statement that holds is a failure.

    Raises
    ------
    ValueError
        For an unknown name, edition or profile.
    """
    pool = _standing_pool(time_limit)
    target = _target(implementation, edition, rounding, pool)
    _check_profile(profile)
    reasons = {check.name: reason for name, reason in (excuses or {}).items() for check in _checks([name])}
    chosen = _checks(names)
    parameters = [_parameter(Statement(c, target, profile, seed, pool), reasons.get(c.name), c.name) for c in chosen]
    return pytest.mark.parametrize("dp_statement", parameters)


def _parameter(statement: Statement, reason: str | None, identifier: str) -> Any:
    # Only a refutation is excused: an audit that is itself broken raises AuditError, and is reported whatever the excuse.
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=pytest.fail.Exception)] if reason is not None else []
    return pytest.param(statement, marks=marks, id=identifier)


def _checks(names: Sequence[str] = ()) -> list[Lemma]:
    """The checks that need a target: all, or those of these names or items."""
    from proofs_checks import audit  # noqa: F401, PLC0415 - registers the checks; not loaded in every run of pytest
    from proofs_checks.lemma import LEMMAS  # noqa: PLC0415 - likewise

    about_targets = [check for check in LEMMAS.values() if not check.is_about_the_paper]
    known = {key: check for check in about_targets for key in (check.item, check.name)}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no statement about a target is called {name!r}{hint}")
    return [known[name] for name in names] or about_targets


def _check_profile(profile: str) -> None:
    from proofs_checks.audit import PROFILES  # noqa: PLC0415 - loaded in every run of pytest

    if profile not in PROFILES:
        raise ValueError(f"the profile must be one of {', '.join(PROFILES)}, got {profile!r}")


_POOLS: dict[tuple[object, ...], Pool] = {}


def _standing_pool(seconds: float) -> Pool:
    """One worker for all statements on targets that are found from here, which has each of them loaded once."""
    from proofs_checks.apart import perform  # noqa: PLC0415 - loaded in every run of pytest
    from proofs_checks.workers import Pool  # noqa: PLC0415 - likewise

    if not seconds > 0:
        raise ValueError(f"the time limit must be positive, got {seconds}")
    key = (seconds, os.getpid(), str(Path.cwd()), *sys.path)
    if key not in _POOLS:
        _POOLS[key] = Pool(perform, 1, seconds)
        atexit.register(_POOLS[key].close)
    return _POOLS[key]


def _target(implementation: Any, edition: str, rounding: str | float | Fraction | None, pool: Pool) -> Target:
    from proofs_checks.apart import find_target  # noqa: PLC0415 - loaded in every run of pytest
    from proofs_checks.target import Target  # noqa: PLC0415 - likewise
    from refimpl.parameters import EDITIONS  # noqa: PLC0415 - likewise

    if edition.upper() not in EDITIONS:
        raise ValueError(f"the edition must be one of {', '.join(EDITIONS)}, got {edition!r}")
    try:
        allowance = None if rounding is None else Fraction(rounding)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"the rounding must be a number, got {rounding!r}") from None
    whose = EDITIONS[edition.upper()]
    if isinstance(implementation, str):
        return find_target(implementation, whose, allowance, seconds=pool.seconds or TIME_LIMIT, pool=pool)
    name = getattr(implementation, "__name__", type(implementation).__name__)
    stated = Fraction(getattr(implementation, "ROUNDING", 0)) if allowance is None else allowance
    return Target(name, implementation, whose, stated, int(getattr(implementation, "MOST_ROWS", 1 << 20)))


# Options --------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("bhs23", "statements about differentially private mean and covariance (proofs_checks)")
    add = group.addoption
    add(
        "--dp-target",
        action="append",
        default=[],
        metavar="NAME",
        help="package.module[:attribute] or exec:COMMAND; may be repeated.",
    )
    add("--dp-rounding", metavar="R", help="relative rounding allowance of the targets, such as 1e-9.")
    add(
        "--dp-edition",
        default="REPAIRED",
        metavar="E",
        help="whose constants and rules: repaired (default), printed or sharp.",
    )
    add("--dp-profile", default="quick", metavar="P", help="how much is run: quick (default), ci or nightly.")
    add("--dp-seed", default=0, type=int, metavar="N", help="seed of the search (default 0); a run is repeatable.")
    add(
        "--dp-time-limit",
        default=TIME_LIMIT,
        type=float,
        metavar="S",
        help="seconds that one call of a target may take (default 60).",
    )
    add("--dp-xfails", metavar="FILE", help='TOML with lines: statement = "reason"; strict, unknown names are errors.')


def pytest_configure(config: pytest.Config) -> None:
    """Load the targets, if any are named; otherwise do nothing."""
    if not config.getoption("dp_target"):
        return
    here = str(config.invocation_params.dir)
    if here not in sys.path:
        sys.path.insert(0, here)  # a target in the folder one stands in is found, as by bhs23-audit
    try:
        config.pluginmanager.register(_Targets(config), "bhs23-targets")
    except ValueError as error:
        raise pytest.UsageError(f"bhs23: {error}") from None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by the tests of a target where there is none."""
    if collection_path.name == _COLLECTED.name and not config.getoption("dp_target"):
        return collection_path == _COLLECTED or None
    return None


@pytest.fixture(scope="module")
def dp_target(request: pytest.FixtureRequest) -> Any:
    """The target of ``--dp-target``: a test that asks for it runs once for each, and is skipped where there is none."""
    if not hasattr(request, "param"):
        pytest.skip("needs --dp-target package.module[:attribute], or exec:COMMAND")
    return request.param


class _Targets:
    """The part of the plugin that runs only where a target is named."""

    def __init__(self, config: pytest.Config) -> None:
        option: Callable[[str], Any] = config.getoption
        self.profile, self.seed = option("dp_profile"), option("dp_seed")
        _check_profile(self.profile)
        names = list(dict.fromkeys(option("dp_target")))
        self.pool = _standing_pool(option("dp_time_limit"))
        self.targets = [_target(name, option("dp_edition"), option("dp_rounding"), self.pool) for name in names]
        self.excuses = _excuses(option("dp_xfails"), names)

    def pytest_unconfigure(self) -> None:
        """End the workers."""
        self.pool.close()

    def pytest_report_header(self) -> list[str]:
        """Say what is checked, with what, so that a run can be repeated."""
        import numpy as np  # noqa: PLC0415 - loaded in every run of pytest

        from proofs_checks.formats import tool_version  # noqa: PLC0415 - likewise

        versions = f"bhs23 {tool_version()}, Python {platform.python_version()}, numpy {np.__version__}"
        lines = [f"bhs23: {versions}; profile {self.profile}, seed {self.seed}"]
        return lines + [f"bhs23 target: {t.name}, {t.edition.name}, rounding {t.rounding}" for t in self.targets]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test for each statement and target, and one for each target where that is what the test takes."""
        if metafunc.definition.path == _COLLECTED:
            from proofs_checks.audit import require_questions  # noqa: PLC0415 - loaded in every run of pytest

            try:
                require_questions(self.targets)
            except ValueError as error:
                raise pytest.Collector.CollectError(f"bhs23: {error}") from None
            pairs = [(check, target) for target in self.targets for check in _checks()]
            metafunc.parametrize("dp_statement", [self._one(check, target) for check, target in pairs])
        elif "dp_target" in metafunc.fixturenames:
            names = [target.name for target in self.targets]
            metafunc.parametrize("dp_target", self.targets, ids=names, indirect=True)

    def _one(self, check: Lemma, target: Target) -> Any:
        reason = self.excuses.get((target.name, check.name))
        statement = Statement(check, target, self.profile, self.seed, self.pool)
        return _parameter(statement, reason, str(statement))


def _excuses(file: str | None, targets: Sequence[str]) -> dict[tuple[str, str], str]:
    """The reasons of a TOML file by target and check: lines for every target, tables named like a target for one."""
    if file is None:
        return {}
    try:
        content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"--dp-xfails {file}: {error}") from None
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    general = {name: reason for name, reason in content.items() if name not in tables}
    for name in tables:
        if name not in targets:
            raise ValueError(f"--dp-xfails {file}: no --dp-target is called {name!r}")
    return {
        (target, check): reason
        for target in targets
        for check, reason in _reasons(file, general | tables.get(target, {})).items()
    }


def _reasons(file: str, lines: Mapping[str, object]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for name, reason in lines.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"--dp-xfails {file}: {name} needs a reason in words, got {reason!r}")
        try:
            (check,) = _checks([name])
        except ValueError as error:
            raise ValueError(f"--dp-xfails {file}: {error}") from None
        reasons[check.name] = reason
    return reasons
