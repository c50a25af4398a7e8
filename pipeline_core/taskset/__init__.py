"""Everything that the service decides about a TaskSet, as pure functions without I/O.

`schema` says whether a document is one, `document` reads it, `rollup` turns replica states into those of roles and job,
`additive` compares a decorator's or binder's answer with what it was given, `merge` joins the changes of several,
`patch` writes a change as RFC 6902, `pod_policy` holds pods to the Pod Security Standards. All of these may be used
from outside; nobody changes a document in place.
"""
