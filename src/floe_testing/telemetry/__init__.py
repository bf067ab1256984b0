"""A telemetry receiver and fixtures for telemetry tests."""
