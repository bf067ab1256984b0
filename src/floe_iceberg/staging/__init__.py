"""Write-audit-publish: writes to staging branches, which are published after their checks."""
