"""Calling a plugin over HTTP: the packet that it is sent, the guarded call, and the reading of its answer.

From outside: build a `Packet` and an `Endpoint` (`packet`), call it with a `Client` (`client`), read what came with
`answers`. `types` names the plugin types and failure policies; `network.check_address` and `signing.check_secret` serve
registration.
"""
