"""Schemas of queries, bodies and payloads, a module for each noun. Read `fields` (queries) and `bodies` first.

Queries and bodies are checked and read by their schemas. The import documents of flows and templates are read by the core;
their schemas only document them. Payloads come from the core's query functions; their schemas document them, too.
"""
