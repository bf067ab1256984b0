"""The files of a table: which are live, how they are grouped, how they are deleted."""
