"""Minimal programs that do the same work, as baselines for the service."""
