"""Every numbered statement of the paper as a check that runs on refimpl, on fastimpl, or on a stranger's implementation.

``bhs23-audit`` runs them; :mod:`proofs_checks.lemma` says what a check is; :mod:`proofs_checks.target` says what a target may
provide; :mod:`proofs_checks.paper` is the ledger of statements.
"""
