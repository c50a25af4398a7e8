"""Who may do what: tokens and the admin's password. From outside: `store` to authenticate and to change them, `actor` for
the one who does something, `privileges` for what a token may allow. `password` and `definition` serve `store`.
"""
