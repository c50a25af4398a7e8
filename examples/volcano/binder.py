"""Gang scheduling with Volcano: a SchedulerBinder that creates a PodGroup for each job, and a LifeHook that deletes it.

    python examples/volcano/binder.py --port 9110 [--kubeconfig FILE]

All pods of a job are bound to the scheduler `volcano` and to a PodGroup named after the job, so that none starts before all
can. The fields of a PodGroup: https://volcano.sh/en/docs/podgroup/

An event may never come: the feature was switched off before the job ended, or this process was restarted while it bound a job
that was stopped meanwhile. So PodGroups of jobs that the cluster does not know are removed after a day.
"""

from __future__ import annotations

import argparse
import copy
import logging
import threading
import time
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Flask, Response, abort, jsonify, request
from kubernetes import client, config
from urllib3.exceptions import HTTPError

DEFAULT_PORT = 9110
SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
JOB = "pipeline/job-id"
DEFAULT_QUEUE = "default"
FINAL = ("succeeded", "failed", "stopped")
KIND = {"group": "scheduling.volcano.sh", "version": "v1beta1", "plural": "podgroups"}
TIMEOUT_SECONDS = 10
ABANDONED_AFTER = timedelta(days=1)
"""A job is launched right after it was bound, unless the cluster or all workers are away."""
SWEEP_SECONDS = 3600.0
MAX_ENDED = 10_000
"""IDs of ended jobs that are kept."""


class Refused(Exception):
    """The job cannot be bound, and repeating would not help."""


class PodGroups:
    """The PodGroups of jobs, each named after its job. `create` and `remove` may be repeated and called in any order."""

    def __init__(self, api: client.CustomObjectsApi) -> None:
        self._api = api
        self._core = client.CoreV1Api(api.api_client)
        self._lock = threading.Lock()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def create(self, job_id: str, namespace: str, spec: dict[str, Any]) -> None:
        """Make sure that the job has its PodGroup. One that exists stays as it is."""
        body = {
            "apiVersion": f"{KIND['group']}/{KIND['version']}",
            "kind": "PodGroup",
            "metadata": {"name": job_id, "namespace": namespace, "labels": {JOB: job_id}},
            "spec": spec,
        }
        try:
            self._api.create_namespaced_custom_object(
                **KIND, namespace=namespace, body=body, _request_timeout=TIMEOUT_SECONDS
            )
        except client.ApiException as error:
            if error.status in (400, 422):
                raise Refused(f"the PodGroup was refused: {error.body}") from error
            if error.status != 409:
                raise
            if not self._is_ours(job_id, namespace):
                raise Refused(f"there is a PodGroup {job_id} in {namespace} that is not of this job") from error
        with self._lock:
            ended = job_id in self._ended
        # The job ended meanwhile, and its last event has been handled already.
        if ended:
            self._delete(job_id, namespace)

    def remove(self, job_id: str, namespace: str) -> None:
        """Make sure that the job, which has ended, has no PodGroup."""
        with self._lock:
            self._ended[job_id] = None
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
        self._delete(job_id, namespace)

    def remove_abandoned(self, namespace: str, at: datetime) -> None:
        """Remove the PodGroups that are old and whose jobs have no control ConfigMap, which lives as long as a job's pods."""
        found: Any = self._api.list_namespaced_custom_object(
            **KIND, namespace=namespace, label_selector=JOB, _request_timeout=TIMEOUT_SECONDS
        )
        for group in found["items"]:
            job_id = group["metadata"]["labels"][JOB]
            age = at - datetime.fromisoformat(group["metadata"]["creationTimestamp"])
            if age > ABANDONED_AFTER and not self._is_launched(job_id, namespace):
                self._delete(job_id, namespace)

    def _is_launched(self, job_id: str, namespace: str) -> bool:
        try:
            self._core.read_namespaced_config_map(f"c-{job_id}-0", namespace, _request_timeout=TIMEOUT_SECONDS)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    def _delete(self, job_id: str, namespace: str) -> None:
        try:
            if self._is_ours(job_id, namespace):
                self._api.delete_namespaced_custom_object(
                    **KIND, namespace=namespace, name=job_id, _request_timeout=TIMEOUT_SECONDS
                )
        except client.ApiException as error:
            if error.status != 404:
                raise

    def _is_ours(self, job_id: str, namespace: str) -> bool:
        found: Any = self._api.get_namespaced_custom_object(
            **KIND, namespace=namespace, name=job_id, _request_timeout=TIMEOUT_SECONDS
        )
        return (found["metadata"].get("labels") or {}).get(JOB) == job_id


def bind(packet: dict[str, Any]) -> dict[str, Any]:
    """The TaskSet of `packet["job"]`, bound to Volcano and to the PodGroup named after the job."""
    taskset = copy.deepcopy(packet["job"])
    for role in taskset["spec"]["roles"]:
        template = role["template"]
        template["metadata"] = template.get("metadata") or {}
        annotations = template["metadata"].get("annotations") or {}
        template["metadata"]["annotations"] = {**annotations, GROUP_NAME: packet["header"]["jobID"]}
        template["spec"]["schedulerName"] = SCHEDULER
    return taskset


def group_of(packet: dict[str, Any]) -> dict[str, Any]:
    """The spec of the job's PodGroup: all of its replicas, in the queue that `queue` of the header names."""
    queue = packet["header"].get("queue") or DEFAULT_QUEUE
    if not isinstance(queue, str):
        raise Refused(f"queue of the header is {queue!r}; the name of one of Volcano's queues was expected")
    return {"minMember": sum(role.get("replicas", 1) for role in packet["job"]["spec"]["roles"]), "queue": queue}


def sent() -> dict[str, Any]:
    """The packet, or event, of this request. What is none is answered with status 400."""
    document = request.get_json()
    if not isinstance(document, dict):
        abort(400, "a JSON object was expected")
    return document


def create_app(groups: PodGroups) -> Flask:
    app = Flask(__name__)

    @app.post("/bind")
    def bind_job() -> Response:
        packet = sent()
        taskset = bind(packet)
        groups.create(packet["header"]["jobID"], taskset["metadata"]["namespace"], group_of(packet))
        return jsonify(taskset)

    @app.post("/hook")
    def handle_event() -> Response:
        event = sent()
        if event["current_state"] in FINAL:
            groups.remove(event["id"], event["namespace"])
        return Response("OK", mimetype="text/plain")

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("OK", mimetype="text/plain")

    @app.errorhandler(Refused)
    def refuse(error: Refused) -> tuple[Response, int]:
        return jsonify(error=str(error)), 422

    @app.errorhandler(client.ApiException)
    @app.errorhandler(HTTPError)
    def unavailable(error: Exception) -> tuple[Response, int]:
        # After a 503 the service repeats the plugin call or the delivery.
        return jsonify(error=f"Kubernetes: {error}"), 503

    return app


def sweep(groups: PodGroups, namespaces: list[str]) -> None:
    """Remove abandoned PodGroups every SWEEP_SECONDS, for as long as this process lives."""
    while True:
        for namespace in namespaces:
            try:
                groups.remove_abandoned(namespace, datetime.now(UTC))
            except (client.ApiException, HTTPError) as error:
                logging.warning("PodGroups of %s not swept: %s", namespace, error)
        time.sleep(SWEEP_SECONDS)


def connect(kubeconfig: str) -> client.CustomObjectsApi:
    """The API of the cluster of this file; without one, of the cluster that this process runs in."""
    if kubeconfig:
        return client.CustomObjectsApi(config.new_client_from_config(kubeconfig, persist_config=False))
    config.load_incluster_config()
    return client.CustomObjectsApi()


def main() -> None:
    parser = argparse.ArgumentParser(description="Binds jobs to Volcano.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--namespace", action="append", default=[], help="A namespace of jobs to be swept; repeatable.")
    arguments = parser.parse_args()
    groups = PodGroups(connect(arguments.kubeconfig))
    threading.Thread(target=sweep, args=(groups, arguments.namespace), daemon=True).start()
    app = create_app(groups)
    app.run(arguments.host, arguments.port, threaded=True)


if __name__ == "__main__":
    main()
