"""Write, audit, publish: writes that wait on a branch of their own."""
