"""One year of flights from New York: raw deliveries become checked tables and statistics.

The assets are in ``bronze``, ``silver`` and ``gold``; ``feed`` simulates the airline that delivers files.
"""
