"""Table operations: create, inspect, evolve, version, recover and drop tables."""
