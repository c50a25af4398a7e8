"""The notation of flows: pure readers of the texts in a flow's fields. All raise `NotationError` (`errors`).

- `names`: names of flows, tasks and users, and their identities
- `resources`, `gpu`: CPU, memory, RDMA devices, node selectors, GPUs; `mounts`: volumes
- `arguments`: the arguments of templates, and the argv that their values make
- `environment`: lines of `K=V`, and the variables that the service sets itself
- `variables`: `{{ … }}` in texts, rendered in a sandbox
- `cron`: points of cron expressions; `dag`: the graph of tasks; `layout`: where its tasks are drawn
- `site`: the part of the configuration that the notation depends on

Everything may be used from outside.
"""
