"""Forms of queries, bodies and payloads.

Queries and the small bodies of stop and resume are checked by these schemas. All others describe for the OpenAPI document
what the core checks when it reads a body, and what it answers.
"""
