"""What every other package may use: `clock` (time), `ids`, `strict_json`, `log`, `tracing` (contexts and spans; those of `otel`),
`encryption` (secrets at rest), `files` (written whole or not at all), `redis` (the clients, and whether Redis was away a moment
ago), `client_network` (what clients are counted by), `failpoints`, `imports` (of a process at its start), `stored` (documents of
another version), `woken` (which wake-ups are on their way). Read them in any order; all may be used from outside.
"""
