"""Calling plugins over HTTP.

Read in this order: `types` (plugin types and failure policies), `packet` (what is sent: endpoint, body, headers, signature),
`client` (a call with its attempts), `guard` (limit of calls at a time, circuit breaker, health; `guard_scripts` are those
that Redis runs for it), `transport` (one HTTP request within a deadline), `network` (which addresses may be called),
`answers` (what each type must answer), `errors` (how a call fails), `shadow_queue` (what shadows are still to be asked).

For use from outside: `client.client()`, `client.hook_client()` and `client.shadow_client()`, whose `call` takes an
`Endpoint` and the body of a `Packet`, then the reader in `answers`; `types` and `errors`; `guard.health`, `guard.circuit`
and their values; `network.check_address`, `network.origin` and `packet.check_secret` for registration; `transport`,
`network.Deadline` and `client.check_status` for `pipeline plugin check`; `shadow_queue` for workers.
"""
