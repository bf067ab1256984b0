"""Spark sessions, classic and Connect."""
