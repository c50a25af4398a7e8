"""The tasks, one module for each kind of worker."""
