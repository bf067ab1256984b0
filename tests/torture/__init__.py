"""Ten thousand commits by writers that crash, lie and collide; then the tables are judged by what callers were told.

Run it with ``make torture``, or ``python -m tests.torture --help``.
"""
