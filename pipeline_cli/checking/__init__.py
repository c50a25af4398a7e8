"""`pipeline plugin check`: whether a running plugin does what the service expects, and withstands a hostile network.

`packets` has what it is sent, `exchange` sends it, `meaning` reads the answer, `rules` says what has to hold, and `report` what
was found. Answers are read by the code by which the service reads them.
"""
