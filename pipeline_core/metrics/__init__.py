"""Counters and histograms that all processes share: `totals` adds to them in Redis, and reads them. What is measured only when
Prometheus asks is in `pipeline_core.operations.gauges`.
"""
