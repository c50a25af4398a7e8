from __future__ import annotations

import gzip
import re

import pytest
from flask.testing import FlaskClient

from api.console.assets import FOLDER, assets
from api.console.pages import PAGES


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


def test_the_paths_of_pages_are_those_that_the_console_knows() -> None:
    text = (FOLDER / "app/pages.js").read_text()
    used = set(re.findall(r"path: /\^\\/(\w+)", text))
    assert used <= set(PAGES)
