"""`pipeline plugin try`: what a plugin answers to the packets of past jobs, compared with what was decided then.

`comparison` asks and compares, `report` has what came of it. The service builds the packets, and never calls the plugin.
"""
