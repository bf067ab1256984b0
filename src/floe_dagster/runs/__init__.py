"""Planning, batching and execution of runs, and the run history."""
