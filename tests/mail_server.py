"""A mail server on a loopback port: real SMTP, with TLS and login, whose replies a test may choose."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline_up.embedded.redis import free_port

USER, PASSWORD = "pipeline", "p@ss word"


@dataclass
class MailServer:
    """What came in, and what is answered: `replies` takes `RCPT` or `DATA`, and returns a reply, or None for the usual one."""

    directory: Path
    scheme: str = "smtp"
    login: bool = True
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    replies: Callable[[str], str | None] = lambda command: None
    _controller: Controller | None = None

    @property
    def url(self) -> str:
        """What `PIPELINE_SMTP_URL` is set to."""
        user = f"{USER}:p%40ss%20word@" if self.login else ""
        return f"{self.scheme}://{user}127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        """The certificate, which its clients have to trust."""
        return self.directory / "mail.pem"

    @property
    def ids(self) -> list[str]:
        """The Message-IDs of all mails that came in, in order."""
        return [str(mail["Message-ID"]) for mail in self.mails]

    def start(self) -> None:
        """Listen, on the port that it had before."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.certificate)
        options: dict[str, Any] = {"authenticator": self._authenticate, "auth_required": self.login}
        if self.scheme == "smtp":
            options |= {"tls_context": tls, "require_starttls": True}
        if self.scheme != "smtp" or not self.login:
            options |= {"auth_require_tls": False}
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            ssl_context=tls if self.scheme == "smtps" else None,
            **options,
            ready_timeout=600,
        )
        self._controller.start()

    def stop(self) -> None:
        """Close the port and all connections."""
        if self._controller:
            self._controller.stop()
            self._controller = None

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        right = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=right, handled=right)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if reply := self.replies("RCPT"):
            return reply
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if reply := self.replies("DATA"):
            return reply
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@contextmanager
def mail_server(directory: Path, scheme: str = "smtp", *, login: bool = True) -> Iterator[MailServer]:
    """A mail server on a free port. Its clients find its certificate in `SSL_CERT_FILE`, if that is set to it."""
    server = MailServer(directory, scheme, login)
    server.certificate.write_bytes(_certificate())
    server.port = free_port()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _certificate() -> bytes:
    """A key and a certificate that it signs for 127.0.0.1, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")])
    moment = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - datetime.timedelta(days=1))
        .not_valid_after(moment + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
