"""Flows and job templates as documents, without I/O.

- `flow`: `parse` reads a `Flow` with its `Task`s from one entry of an import document; `parse_stored` one that is stored;
  `dump_document` writes the import document
- `templates`: `Template`, and how a task made from it is started; `catalogue`: imported and built-in templates together
- `preparation`: renders, reads and checks the fields of a task, for imports and right before its job is submitted
- `documents`: reads the whole import document, or one entry of it
- `cache`: keeps flows and their runs in the process

Everything may be used from outside.
"""
