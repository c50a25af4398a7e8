"""Write plugins of the Pipeline service in Python 3.9 or newer, with the standard library alone.

A plugin is an object of the class of its type; a function of yours decides:

    from pipeline_plugin import Gate, Packet, passed, stop

    gate = Gate("quota")

    @gate.decide
    def decide(packet: Packet):
        return stop("no quota left") if packet.header["userID"] in FULL else passed()

`python -m pipeline_plugin plugin:gate --port 9000` serves it, as does any server of WSGI (`gate.wsgi`) or ASGI (`gate.asgi`).
`gate.test(packet)` asks it without HTTP. Read `packets` and `answers` first, then `plugins`; `additions` is what decorators
and binders do to a TaskSet. `web` is what `wsgi`, `asgi` and `server` have in common: `signing` and `memory` check a request
and remember its answer, `log` writes a line for it. `fixtures` has those for pytest.
"""

from pipeline_plugin.additions import Additions, Binding, NotAdditive
from pipeline_plugin.answers import (
    Acknowledgement,
    Decision,
    Factor,
    Rejected,
    factor,
    give_up,
    passed,
    received,
    retry,
    stop,
    suspend,
)
from pipeline_plugin.packets import BadPacket, Event, Packet
from pipeline_plugin.plugins import (
    Binder,
    Decorator,
    FactorGenerator,
    Gate,
    LifeHook,
    Plugin,
    Plugins,
    Translator,
)

__all__ = [
    "Acknowledgement",
    "Additions",
    "BadPacket",
    "Binder",
    "Binding",
    "Decision",
    "Decorator",
    "Event",
    "Factor",
    "FactorGenerator",
    "Gate",
    "LifeHook",
    "NotAdditive",
    "Packet",
    "Plugin",
    "Plugins",
    "Rejected",
    "Translator",
    "factor",
    "give_up",
    "passed",
    "received",
    "retry",
    "stop",
    "suspend",
]
