from __future__ import annotations

from collections.abc import Mapping

import pytest
from flask import Flask, Response

from api import browsers
from pipeline_core.errors import Forbidden

SAME = {"X-Pipeline-Console": "1", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(SAME, id="by Sec-Fetch-Site"),
        pytest.param(
            {"X-Pipeline-Console": "1", "Origin": "http://localhost"}, id="by Origin, where HTTP has no other"
        ),
    ],
)
def test_a_change_by_a_page_of_the_service_is_let_through(api_app: Flask, headers: Mapping[str, str]) -> None:
    with api_app.test_request_context("/v1/job", method="POST", headers=headers):
        browsers.refuse_forged()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, id="no CSRF header"),
        pytest.param({"X-Pipeline-Console": "1"}, id="no origin"),
        pytest.param({**SAME, "Sec-Fetch-Site": "cross-site"}, id="another site"),
        pytest.param({**SAME, "Sec-Fetch-Site": "same-site"}, id="another host of the site"),
        pytest.param({**SAME, "Sec-Fetch-Site": "none"}, id="typed by the user"),
        pytest.param({"X-Pipeline-Console": "1", "Origin": "http://other"}, id="another origin"),
        pytest.param({"X-Pipeline-Console": "1", "Origin": "https://localhost"}, id="another scheme"),
        pytest.param({"X-Pipeline-Console": "1", "Origin": "null"}, id="an origin without a name"),
        pytest.param({**SAME, "Origin": "http://other"}, id="one of both is another's"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_any_other_change_is_refused(api_app: Flask, headers: Mapping[str, str], method: str) -> None:
    with api_app.test_request_context("/v1/job", method=method, headers=headers), pytest.raises(Forbidden):
        browsers.refuse_forged()


def test_reading_takes_no_header(api_app: Flask) -> None:
    with api_app.test_request_context("/v1/job/list", headers={"Sec-Fetch-Site": "none"}):
        browsers.refuse_forged()


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
def test_the_cookie_is_for_this_service_alone(api_app: Flask, scheme: str, secure: bool) -> None:
    with api_app.test_request_context("/v1/session", base_url=f"{scheme}://pipeline.example/below"):
        response = Response()
        browsers.set_session(response, "the ID")
        browsers.forget_session(response)
    for cookie in response.headers.getlist("Set-Cookie"):
        parts = cookie.split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/below"} <= set(parts)
        assert ("Secure" in parts) is secure
        assert not any(part.startswith("Domain") for part in parts)
