"""Who may do what, and who did what. In the order of reading:

- `actor`: the `Actor` that makes a change, such as the holder of a token or the service itself
- `privileges`: what a token may allow
- `password`: which texts may be the admin's password, and whether a text is it
- `tokens`: authenticating by a token or the admin's password, and changing them
- `browser_sessions`: browsers that signed in with a token or the password
- `idempotency`: requests that their clients may send again
- `audit`: the log of changes; `record` writes an entry in the transaction of the change

All of them may be used from outside.
"""
