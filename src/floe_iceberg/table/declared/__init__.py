"""Table declarations in floe.yaml: detect drift, plan changes and apply them."""
