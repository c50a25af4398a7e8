"""Reading what clients send.

`errors` has the collector of validation errors and the notation of paths, for request bodies, selectors, TaskSets and
flows alike; `texts` has how values are quoted in messages and which texts can be stored and sent; `fields` has
what request bodies and import documents say of their fields alike, and reads the latter.
"""
