"""One trace of a job, over all processes, through a suspension and a killed worker, as a receiver of OTLP gets it; and without
OpenTelemetry, the client's context passed on."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.builders import flow_entry, taskset
from tests.installation import Installation, installed
from tests.plugin_server import PluginServer
from tests.servers import fresh_database
from tests.waiting import wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SENT = f"00-{TRACE}-{PARENT}-01"
KILLED = "stage.claimed@decorate:exit"


@contextmanager
def receiving() -> Iterator[tuple[str, list[Span]]]:
    """The address of a receiver of OTLP over HTTP, and the spans that it got."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def running(
    tmp_path: Path, postgres_url: str, migrated: str, redis_url: str, **variables: str
) -> Iterator[Installation]:
    with (
        fresh_database(postgres_url, template=migrated) as database_url,
        installed(
            tmp_path,
            database_url,
            redis_url,
            split=False,
            PIPELINE_CLUSTER_DRIVER="null",
            PIPELINE_LEASE_SECONDS="2",
            PIPELINE_WAKE_AFTER_SECONDS="2",
            **variables,
        ) as installation,
    ):
        installation.start()
        wait_for(lambda: installation.ask("GET", "/readyz").status_code == 200, "the API")
        yield installation


def register(service: Installation, plugins: PluginServer) -> None:
    """A gate that suspends, a decorator, and a subscriber."""
    gate = plugins.plugin("/gate", lambda packet: {"decision": "suspend", "reason": "wait"})
    decorator = plugins.plugin("/decorator", lambda packet: packet["job"])
    hook = plugins.plugin("/hook", lambda event: "OK")
    service.register(
        "traced",
        {"pluginType": "AccessGate", "callAddress": gate},
        {"pluginType": "TemplateDecorator", "callAddress": decorator},
        {"pluginType": "LifeHook", "callAddress": hook},
    )


def run_through(service: Installation, traceparent: str = SENT) -> str:
    """A job that is suspended, resumed, and succeeds; its ID."""
    job = taskset()
    body = {"userID": "u1", "jobName": "traced", "jobKind": job["kind"], "header": {}, "job": job}
    answer = service.ask("POST", "/v1/job", body, traceparent=traceparent)
    assert answer.status_code == 200, answer.text
    job_id = str(answer.json()["payload"]["jobID"])
    service.wait_state(job_id, "suspended")
    service.put(f"/v1/job/resume/{job_id}", {})
    service.wait_state(job_id, "succeeded")
    return job_id


def test_a_job_has_one_trace_through_all_processes(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str, plugins: PluginServer
) -> None:
    with receiving() as (address, spans):
        variables = {
            "PIPELINE_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "PIPELINE_FAILPOINT": KILLED,
        }
        with running(tmp_path, postgres_url, migrated_database, redis_url, **variables) as service:
            register(service, plugins)
            job_id = run_through(service)
            assert service.job(job_id)["traceID"] == TRACE
            expected = {
                "POST /v1/job": 1,
                "stage gates": 1,
                "stage decorate": 1,
                "stage launch": 1,
                "cluster launch": 1,
                # The gate and the decorator; a worker was killed before it called the latter.
                "plugin call": 2,
                # waiting, suspended, waiting, running, succeeded
                "delivery": 5,
            }

            def names() -> Counter[str]:
                return Counter(span.name for span in spans if span.trace_id.hex() == TRACE)

            wait_for(lambda: names() == expected, "the trace", progress=lambda: tuple(sorted(names().items())))
            assert len(list(service.faults.iterdir())) == 1
            logs = "\n".join(map(service.log, ("api", "stages1", "stages2", "background")))
    trace = {span.span_id.hex(): span for span in spans if span.trace_id.hex() == TRACE}
    (request,) = [span for span in trace.values() if span.name == "POST /v1/job"]
    assert request.parent_span_id.hex() == PARENT
    parents = {
        span.name: trace[span.parent_span_id.hex()].name for span in trace.values() if span.name != "POST /v1/job"
    }
    assert parents == {
        "stage gates": "POST /v1/job",
        "stage decorate": "POST /v1/job",
        "stage launch": "POST /v1/job",
        "cluster launch": "stage launch",
        "plugin call": parents["plugin call"],
        "delivery": "POST /v1/job",
    }
    called = [trace[span.parent_span_id.hex()].name for span in trace.values() if span.name == "plugin call"]
    assert sorted(called) == ["stage decorate", "stage gates"]
    for path, name in (("/gate", "plugin call"), ("/decorator", "plugin call"), ("/hook", "delivery")):
        for call in plugins.calls_of(path):
            _, trace_id, span_id, _ = call.headers["traceparent"].split("-")
            assert (trace_id, trace[span_id].name) == (TRACE, name)
    (resumed,) = [span for span in spans if span.name == "PUT /v1/job/resume/<job_id>"]
    assert [link.trace_id.hex() for link in resumed.links] == [TRACE]
    lines = [json.loads(line) for line in logs.splitlines() if job_id in line and line.startswith("{")]
    about = ("job submitted", "stage done", "job state changed", "job launched")
    traced = {line["event"]: line.get("trace_id") for line in lines if line["event"] in about}
    assert traced == dict.fromkeys(about, TRACE)


def test_a_run_of_a_flow_and_the_jobs_of_its_tasks_have_one_trace(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str
) -> None:
    started = "POST /v1/flows/<flow:name>/run"
    with receiving() as (address, spans):
        variables = {
            "PIPELINE_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with running(tmp_path, postgres_url, migrated_database, redis_url, **variables) as service:
            service.post("/v1/flows", flow_entry("traced", {"a": [], "b": ["a"]}))
            answer = service.ask("POST", "/v1/flows/traced/run", {}, traceparent=SENT)
            run_id = str(answer.json()["payload"]["runID"])
            wait_for(lambda: service.get(f"/v1/runs/{run_id}")["state"] == "succeeded", "the run")
            jobs = {task["jobID"] for task in service.get(f"/v1/runs/{run_id}")["tasks"]}
            assert {service.job(job_id)["traceID"] for job_id in jobs} == {TRACE}
            expected = {started: 1, "start run": 1, "submit task": 2, "stage launch": 2, "cluster launch": 2}

            def names() -> Counter[str]:
                return Counter(span.name for span in spans if span.trace_id.hex() == TRACE)

            wait_for(lambda: names() == expected, "the trace", progress=lambda: tuple(sorted(names().items())))
    trace = {span.span_id.hex(): span for span in spans if span.trace_id.hex() == TRACE}
    parents = {span.name: trace[span.parent_span_id.hex()].name for span in trace.values() if span.name != started}
    assert parents == {
        "start run": started,
        "submit task": "start run",
        "stage launch": "submit task",
        "cluster launch": "stage launch",
    }
    named = {
        attribute.value.string_value
        for span in trace.values()
        if span.name == "submit task"
        for attribute in span.attributes
        if attribute.key == "pipeline.job_id"
    }
    assert named == jobs


@pytest.mark.parametrize("sent", [SENT, "not a context"])
def test_without_opentelemetry_a_client_s_context_is_passed_on(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str, plugins: PluginServer, sent: str
) -> None:
    with running(tmp_path, postgres_url, migrated_database, redis_url) as service:
        register(service, plugins)
        job_id = run_through(service, sent)
        wait_for(lambda: len(plugins.calls_of("/hook", job_id)) == 5, "all deliveries")
        assert service.job(job_id)["traceID"] == (TRACE if sent == SENT else None)
    expected = SENT if sent == SENT else None
    assert {call.headers.get("traceparent") for call in plugins.calls} == {expected}
