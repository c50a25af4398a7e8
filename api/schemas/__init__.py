"""Schemas of queries, bodies and payloads, a module for each noun. Read `fields` (queries) and `bodies` first.

Queries and bodies are checked and read by their schemas. The import documents of flows and templates are read by the core;
their schemas document them. So are payloads: the core's query functions return them, and the schemas describe them.
"""
