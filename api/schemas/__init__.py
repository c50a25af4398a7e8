"""Schemas of queries, bodies and payloads.

Queries (`fields.Query`) and bodies (`bodies.BodySchema`) are documented, checked and read by these schemas. Payloads, and the
import documents of flows and templates, are only described: the core makes the former, and reads the latter.
"""
