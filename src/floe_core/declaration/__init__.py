"""What floe.yaml says about tables, schedules and places."""
