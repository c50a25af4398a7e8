"""Counters and histograms that all processes share."""
