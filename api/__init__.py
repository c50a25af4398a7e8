"""The REST API: the HTTP layer over `pipeline_core`, without decisions of its own.

- `app`: `create_app` makes the Flask application, `wsgi.app` is one to serve
- `auth`: authentication by a token or a browser's session, and what it may do
- `browsers`: the cookie of a browser that has signed in, and what shows that no other site has made its request
- `blueprint`: declares operations, and checks each request in a fixed order
- `console`: the web page over this API
- `envelope`: the JSON of every response, and the one mapping from errors to HTTP statuses
- `failure_limit`: how many invalid credentials one address may send
- `idempotency`: the header Idempotency-Key
- `openapi`: what an operation declares, and the OpenAPI document generated from it
- `paging`, `streaming`: pages of lists, and streamed plain text
- `resources`: the routes, a module for each noun
- `schemas`: the schemas of queries, bodies and payloads
- `server`: the worker of gunicorn that takes in requests whole

Queries and bodies are parsed by their schemas alone, so the core is given checked values; only the import documents of flows
and templates are read by the core. A payload is plain JSON that the core's query functions return; its schema documents it.
"""
