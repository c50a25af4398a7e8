"""Alerts by mail: the message, and one attempt to send it by SMTP.

The server's address is checked and the whole attempt is bounded in time, as calls of plugins are.
"""

from __future__ import annotations

import io
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeline_core.hooks import alert_texts
from pipeline_core.plugins.errors import BadAnswer, CallFailed, PluginUnavailable, clean
from pipeline_core.plugins.network import Deadline, connect
from pipeline_core.plugins.transport import TimedReader, tls_reason
from pipeline_core.settings import Network

MAX_REPLIES = 64 * 1024
"""Bytes of all replies of a server in one attempt."""
_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
_SHUTTING_DOWN = 421
_LOGIN = frozenset({530, 534, 535, 538})
"""Codes that say that the login is missing or wrong, which is a matter of the settings and not of the mail."""


class MailRefused(BadAnswer):
    """The server refuses the mail for good (5yz)."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server. `scheme` is `smtp` (STARTTLS is required), `smtps` (TLS from the beginning) or `smtp+plain` (no TLS)."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> MailServer:
        """The server of a URL that `PIPELINE_SMTP_URL` may be."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme], user, password)


def message(document: Mapping[str, Any], delivery_id: str, sender: str, recipient: str, moment: datetime) -> bytes:
    """The mail of an alert. Its Message-ID is the same in every attempt."""
    mail = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = alert_texts.title(document)
    mail["Date"] = format_datetime(moment)
    mail["Message-ID"] = f"<{delivery_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    text = [*alert_texts.lines(document), alert_texts.link(document)]
    mail.set_content("\n".join(filter(None, text)) + "\n")
    return mail.as_bytes()


def send(
    server: MailServer,
    sender: str,
    recipient: str,
    mail: bytes,
    deadline: Deadline,
    networks: Sequence[Network] = (),
) -> None:
    """Hand the mail over to the server. Raises MailRefused, PluginUnavailable and BadAnswer; after both of these it may be
    sent again."""
    with _failures(server, deadline):
        connection = _Connection(server, networks, deadline)
        try:
            if server.scheme == "smtp":
                connection.starttls(context=connection.tls)
            if server.user:
                connection.login(server.user, server.password)
            connection.sendmail(sender, [recipient], mail)
            # The mail is handed over, whatever becomes of the connection.
            with suppress(OSError):
                connection.putcmd("quit")
        finally:
            connection.close()


@contextmanager
def _failures(server: MailServer, deadline: Deadline) -> Iterator[None]:
    """Raise what SMTP and its connections raise as a CallFailed."""
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        ((code, text),) = error.recipients.values()
        raise _refusal(server, "the recipient", code, text) from error
    except smtplib.SMTPSenderRefused as error:
        raise _refusal(server, "the sender", error.smtp_code, error.smtp_error) from error
    except smtplib.SMTPDataError as error:
        raise _refusal(server, "the mail", error.smtp_code, error.smtp_error) from error
    except smtplib.SMTPAuthenticationError as error:
        raise BadAnswer(f"the mail server refused the login: {_reply(server, error)}") from error
    except smtplib.SMTPResponseException as error:
        raise PluginUnavailable(f"the mail server answered {_reply(server, error)}") from error
    except smtplib.SMTPNotSupportedError as error:
        raise BadAnswer(f"the mail server lacks what is needed: {clean(str(error))}") from error
    except ssl.SSLError as error:
        raise PluginUnavailable(f"TLS failed: {tls_reason(error)}") from error
    except OSError as error:
        late = deadline.over or isinstance(error, TimeoutError)
        raise PluginUnavailable(
            f"no answer within {deadline}" if late else "the connection was closed before the mail was taken"
        ) from error


def _refusal(server: MailServer, what: str, code: int, text: bytes | str) -> CallFailed:
    cause = f"the mail server refused {what}: {code} {clean(text, hide=_secrets(server))}"
    if code == _SHUTTING_DOWN:
        return PluginUnavailable(cause)
    return MailRefused(cause) if 500 <= code < 600 and code not in _LOGIN else BadAnswer(cause)


def _reply(server: MailServer, error: smtplib.SMTPResponseException) -> str:
    return f"{error.smtp_code} {clean(error.smtp_error, hide=_secrets(server))}"


def _secrets(server: MailServer) -> list[str]:
    return [server.password] if server.password else []


class _Replies(TimedReader):
    """Reads a server's replies, and not more of them than MAX_REPLIES bytes."""

    left = MAX_REPLIES

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.left -= count or 0
        if self.left < 0:
            raise OSError("the replies are too long")
        return count


class _Connection(smtplib.SMTP):
    """A connection to the server, which has answered. Raises what `smtplib.SMTP` raises, and CallFailed."""

    def __init__(self, server: MailServer, networks: Sequence[Network], deadline: Deadline) -> None:
        self._server, self._networks, self._deadline = server, networks, deadline
        self.tls = None if server.scheme == "smtp+plain" else ssl.create_default_context()
        # Without a name smtplib asks the DNS for one, however long that takes.
        super().__init__(server.host, server.port, local_hostname="localhost", timeout=deadline.remaining())

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connection = connect(host, port, self._networks, self._deadline)
        try:
            own = str(connection.getsockname()[0])
            self.local_hostname = f"[IPv6:{own}]" if ":" in own else f"[{own}]"
            connection.settimeout(self._deadline.remaining())
            if self._server.scheme == "smtps" and self.tls:
                return self.tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return connection

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock:
            raw = self.sock.makefile("rb", buffering=0)
            self.file = io.BufferedReader(_Replies(self.sock, raw, self._deadline))
        return super().getreply()

    def send(self, data: Any) -> None:
        if self.sock:
            self.sock.settimeout(self._deadline.remaining())
        super().send(data)
