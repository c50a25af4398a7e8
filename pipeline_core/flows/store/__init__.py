"""Changing what is stored: `flows` and `templates` are created, replaced, imported, exported, listed and deleted.

Both are used by the API only. Flows and the templates that runs need are read by `pipeline_core.flows.lookup`.
"""
