"""TaskSets as pods of a Kubernetes cluster. From outside: `driver.KubernetesCluster`, what it is made of by
`pipeline_core.clusters`, and `rules.RULES`, which the documentation shows.

`objects` says what is created, `translation` by the table of `rules` what a pod's status means, both without I/O. `attempt`
carries them out through `api`, and remembers in the attempt's control unit (`ledger`) what the pods cannot tell any more.
"""
