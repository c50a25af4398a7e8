"""Where a benchmark writes how far the workers' clock is put forward."""

VARIABLE = "BENCH_CLOCK_FILE"
"""The environment variable with the path of a file that has the seconds."""
