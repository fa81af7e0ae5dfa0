"""What ``pytest --pyargs proofs_checks --dp-target package.module`` collects; without a target, pytest passes it by."""

from __future__ import annotations

from proofs_checks.plugin import Statement


def test_statement(dp_statement: Statement) -> None:
    """One statement of the paper on one target."""
    dp_statement()
