"""TaskSets as pods of a Kubernetes cluster.

In the order in which one reads:

- `driver`: `KubernetesCluster`. `watch`: changed jobs as they come, and the cache of what was seen.
- `attempt`: one job attempt: creates, observes and ends its pods. `ledger`: what its control ConfigMap records of pods that
  are gone.
- `objects`: the objects that are created, and their names; `collector` is the container that prints metrics.
- `pods`, `rules`: a pod's status, and the table by which it becomes the report of a replica. Both without I/O.
- `podlogs`, `archive`, `archiving`, `logs`: the log of one container; where logs are kept; how they get there; the log of a job.
- `results`: outputs and metrics of ended pods.
- `api`: requests to the API server.

From outside use `rules.RULES`, which the documentation shows; `KubernetesCluster` is made by `clusters.factory`.
"""
