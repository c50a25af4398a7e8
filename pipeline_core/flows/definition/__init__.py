"""Flows and job templates as documents: parsed, checked and written by pure functions."""
