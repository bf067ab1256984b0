"""Receivers and fixtures for telemetry tests."""
