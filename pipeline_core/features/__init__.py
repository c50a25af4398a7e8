"""Features, their plugins and the order in which these run. From outside: `registry` to change and show them,
`snapshot` for what jobs are matched against. `definition` reads a registration, `plugins` and `payloads` serve `registry`.
"""
