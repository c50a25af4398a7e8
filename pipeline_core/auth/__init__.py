"""Who may do what, and who did what.

- `actor`: the one who does something, the value that goes with every change
- `privileges`: what a token may allow
- `tokens`: authenticating by a token or the admin's password, and changing them
- `password`: what may be the admin's password, and whether a text is it
- `audit`: the log of changes, which `tokens` and all who change something write to
"""
