"""The notation of flows, read and checked by pure functions: resources, GPUs, mounts, arguments, variables, cron."""
