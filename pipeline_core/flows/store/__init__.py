"""Changing what is stored: `flows` and `templates` are created, replaced, imported, exported, listed and deleted.

Both are used by the API only. Reading single flows and templates is in `pipeline_core.flows.lookup`.
"""
