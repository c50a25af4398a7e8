"""Features, their plugins and the order in which these run.

Read in this order: `definition` (a registration as values), `registry` (registering, switching, ordering, deleting and showing
features and plugins), `plugins` (the rows of plugins, for `registry`), `snapshot` (the plugins of enabled features, compiled
once per version of the registry, to match jobs against).

For use from outside: `definition` and `registry` (API), `snapshot` (stages, jobs, hooks).
"""
