"""Ten thousand commits by concurrent writers under faults; then the tables are compared with the reported outcomes.

Run it with ``make torture``, or ``python -m tests.torture --help``.
"""
