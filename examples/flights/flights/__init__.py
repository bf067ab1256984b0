"""A year of flights out of New York: raw deliveries become checked tables and figures.

The assets are in ``bronze``, ``silver`` and ``gold``; ``feed`` plays the airline that delivers files.
"""
