"""TaskSets as pods of a Kubernetes cluster.

In reading order:

- `driver`: `KubernetesCluster`. `watch`: yields changed jobs, and caches their observations.
- `lookup`: finds the attempts of a job by name. `attempt`: one job attempt: creates, observes and ends its pods. `ledger`: what
  its control ConfigMap records of pods that are gone. `orphans`: pods whose control ConfigMap is gone. `tombstones`: when the
  control ConfigMaps of ended jobs are removed.
- `objects`: the objects that are created, and their names; `collector` is the container that prints metrics.
- `pod_view`, `pod_rules`: a pod's status, and the table of rules that maps it to the report of a replica. Both without I/O.
- `podlogs`: the log of one container. `archive`: the files in which logs are kept. `archiving`: copies logs there. `logs`: the
  log of a job.
- `results`: outputs and metrics of ended pods.
- `api`: requests to the API server. `connection`: how it is reached. `rights`: what the service must be allowed to do.

From outside use `pod_rules.RULES`, which the documentation shows; `KubernetesCluster` is made by `clusters.factory`.
"""
