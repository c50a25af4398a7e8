from __future__ import annotations

import gzip
import re

import pytest
from flask.testing import FlaskClient

from api.console.assets import FOLDER, assets
from api.console.pages import PAGES

BROWSER = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
"""What browsers ask for when somebody opens an address."""


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/j01kb5gqz5sk4q7r3f0m7h2k9xz", "/flows/a/b"])
def test_each_page_is_the_same_document(client: FlaskClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.mimetype == "text/html"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert f'src="/console/{assets().digest}/app/main.js"' in answer.text


def test_a_document_runs_and_fetches_only_what_is_the_services(client: FlaskClient) -> None:
    answer = client.get("/")
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|style=|https?://", answer.text)


def test_behind_a_proxys_prefix_all_paths_are_below_it(client: FlaskClient) -> None:
    text = client.get("/", environ_overrides={"SCRIPT_NAME": "/pipeline"}).text
    assert 'data-root="/pipeline"' in text
    assert all(path.startswith("/pipeline/console/") for path in re.findall(r'(?:src|href)="([^"]+)"', text))


def test_the_session_of_another_port_is_another(client: FlaskClient) -> None:
    client.set_cookie("pipeline_session_8080", "some ID")
    for host, signed_in in {"localhost:8080": True, "localhost:8081": False, "localhost": False}.items():
        text = client.get("/", headers={"Host": host}).text
        assert ("data-signed-in" in text) is signed_in, host


def test_the_session_by_https_is_another_than_the_one_by_http(client: FlaskClient) -> None:
    client.set_cookie("pipeline_session_443", "some ID", domain="pipeline.example")
    for scheme, signed_in in {"https": True, "http": False}.items():
        text = client.get("/", base_url=f"{scheme}://pipeline.example").text
        assert ("data-signed-in" in text) is signed_in, scheme


def test_the_document_says_whether_the_browser_has_a_session(client: FlaskClient) -> None:
    assert "data-signed-in" not in client.get("/").text
    client.set_cookie("pipeline_session", "some ID")
    assert "data-signed-in" in client.get("/").text


def test_files_are_kept_by_the_browser_and_sent_compressed(client: FlaskClient) -> None:
    path = f"/console/{assets().digest}/app/main.js"
    plain = client.get(path)
    assert plain.mimetype == "text/javascript"
    assert "immutable" in plain.headers["Cache-Control"]
    assert plain.data == (FOLDER / "app/main.js").read_bytes()
    packed = client.get(path, headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.data) == plain.data


@pytest.mark.parametrize(
    "path",
    [
        "/console/{digest}/vendor/manifest.json",
        "/console/{digest}/vendor/preact.d.ts",
        "/console/{digest}/../pages.py",
        "/console/{digest}/app",
        "/console/0123456789abcdef0123/app/main.js",
        "/nothing",
        "/jobsx",
    ],
)
def test_nothing_else_is_served(client: FlaskClient, path: str) -> None:
    answer = client.get(path.format(digest=assets().digest))
    assert answer.status_code == 404
    assert answer.mimetype == "application/json"


def test_a_browser_is_shown_by_a_page_that_there_is_none(client: FlaskClient) -> None:
    for path, is_page in {"/jbos": True, "/jbos/j1": True, "/v1/jbos": False, "/console/x/app/main.js": True}.items():
        answer = client.get(path, headers={"Accept": BROWSER})
        assert answer.status_code == 404
        assert answer.mimetype == ("text/html" if is_page else "application/json"), path
    assert client.post("/jbos", headers={"Accept": BROWSER}).mimetype == "application/json"
    assert client.get("/jbos", headers={"Accept": "*/*"}).mimetype == "application/json"


def test_the_paths_of_pages_are_those_that_the_console_knows() -> None:
    text = (FOLDER / "app/pages.js").read_text()
    used = set(re.findall(r"path: /\^\\/(\w+)", text))
    assert used <= set(PAGES)
