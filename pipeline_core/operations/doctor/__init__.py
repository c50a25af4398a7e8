"""What is wrong with an installation, for `pipeline doctor`. In the order of reading:

- `facts`: what was found out about the servers, the host and the libraries
- `rules`: which findings facts amount to; `settings_rules`: which settings contradict each other
- `gathering`: asks the servers, the host and the cluster for the facts

From outside, `gathering`, `rules` and `facts.Facts` are used.
"""
