"""Ready adapters of other libraries, for ``bhs23-audit blackbox proofs_checks.adapters.NAME``.

Each room imports its library when it is called, so that this package needs none of them. All clip to [-1, 1], a bound that
does not depend on the data, and take ``private_mean``'s arguments; ``lambda_0`` and ``edition`` mean nothing to them.
"""
