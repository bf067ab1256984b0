"""Tables from the outside: created, described, changed, named versions, recovered, dropped."""
