from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pipeline_core.plugins.errors import PluginUnavailable
from pipeline_core.plugins.network import Deadline
from pipeline_core.plugins.transport import Transport
from tests.integration.plugins.misbehaving import Plugin
from tests.waiting import HANG_SECONDS


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and a self-signed certificate for `localhost`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(pem)
    )
    return path


@pytest.fixture
def secured(certificate: Path) -> Iterator[Plugin]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Plugin(context).running() as running:
        yield running


def test_a_trusted_plugin_is_known_by_its_name(
    secured: Plugin, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    transport = Transport()
    for _ in range(2):
        assert transport.post(secured.url("pass", "localhost"), b"{}", {}, Deadline.after(20)).status == 200
    assert secured.connections == 1


def test_a_certificate_for_another_name_is_refused(
    secured: Plugin, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(PluginUnavailable, match=r"TLS failed: .*not valid for '127\.0\.0\.1'"):
        Transport().post(secured.url("pass"), b"{}", {}, Deadline.after(20))


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: Plugin) -> None:
    with pytest.raises(PluginUnavailable, match="TLS failed: self-signed certificate"):
        Transport().post(secured.url("pass", "localhost"), b"{}", {}, Deadline.after(20))
    assert secured.requests == []


def test_a_plugin_without_tls_is_refused() -> None:
    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        with pytest.raises(PluginUnavailable, match="TLS failed"):
            Transport().post(f"https://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {}, Deadline.after(20))
        answering.join(HANG_SECONDS)


@pytest.mark.parametrize("path", ["hang", "drip-headers", "drip-body"])
def test_a_secured_plugin_that_drips_is_cut_off(
    secured: Plugin, certificate: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(PluginUnavailable, match="no answer within"):
        Transport().post(secured.url(path, "localhost"), b"{}", {}, Deadline.after(1))
