"""The REST API: HTTP over what `pipeline_core` knows and decides, and nothing of its own.

- `app`: `create_app` makes the Flask application, `wsgi.app` is one to serve
- `auth`: whose token a request carries, and the limit on guessing
- `blueprint`: declaring operations, and the checks of a request, in one order
- `envelope`: the form of every answer, and the one place where errors become HTTP statuses
- `openapi`: what an operation declares, and the document made of it
- `paging`, `streaming`: pages of lists, and answers that are text as it comes
- `resources`: the routes, a module for each noun
- `schemas`: the forms of queries, bodies and payloads

Queries and bodies are read by their schemas, and by nothing else: the core is given checked values. A payload is plain JSON
that the core's reading functions give, beside the rows that it shows; its schema only describes it.
"""
