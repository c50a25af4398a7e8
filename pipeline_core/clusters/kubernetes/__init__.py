"""TaskSets as pods of a Kubernetes cluster. From outside: `driver.KubernetesCluster`, and `translation.RULES` for the docs.

`objects` says what is created and `translation` what a pod's status means, both without I/O; `attempt` carries them out
through `api`, and remembers in the attempt's control unit (`ledger`) what the pods themselves cannot tell any more.
"""
