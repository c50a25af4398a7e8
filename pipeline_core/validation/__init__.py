"""Reading what clients send. In the order of reading:

- `errors`: the collector of validation errors and the notation of paths, for bodies, selectors, TaskSets and flows alike
- `texts`: which texts can be stored and sent, and how values are quoted in messages
- `fields`: the rules that request bodies and import documents share, and the reader of the latter

All of them may be used from outside.
"""
