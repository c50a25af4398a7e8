"""All rules about a TaskSet, as pure functions without I/O. They never change a document that is passed in.

- `document`: reading a checked TaskSet. `schema`: whether a document is a TaskSet that can run.
- `rollup`: from the states of replicas to those of roles and of the TaskSet.
- `additive`: whether an answer of a decorator or binder only adds to the TaskSet; `command`: how a command may grow.
- `change`: what an answer adds, also as a JSON Patch. `merge`: the changes of several plugins in one.
- `comparison`: what differs between two versions of a TaskSet.
- `masking`: values that look secret are not shown.
- `pod_policy`: the Pod Security Standards.
- `results`: reading `/output` and `/metric.json`.
- `quantities`: reading what Kubernetes calls a quantity.
- `values`: JSON values, their equality, and errors by path.

All of them may be used from outside.
"""
