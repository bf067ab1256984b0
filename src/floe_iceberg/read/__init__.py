"""Reading: versions, predicates, scans, and damage that is noticed before it shortens a result."""
