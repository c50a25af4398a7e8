"""What every other package may use: `clock` (time), `ids`, `strict_json`, `log`, `encryption` (secrets at rest), `files` (written
whole or not at all), `redis` (the clients, and whether Redis was away a moment ago), `failpoints`. They do not depend on each
other's order, and all may be used from outside.
"""
