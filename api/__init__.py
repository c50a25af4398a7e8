"""The REST API: routes over what `pipeline_core` knows and decides, and nothing of their own beside HTTP.

`app.create_app()` makes the Flask application, `wsgi.app` is one to serve. Every route is declared with
`blueprint.Blueprint.operation`, which checks requests in one order and documents what it checks; `envelope` has the form
of every answer. The commands of `pipeline` live in `cli`.
"""
