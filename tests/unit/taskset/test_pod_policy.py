from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.taskset.pod_policy import (
    APPARMOR_ANNOTATION,
    BASELINE,
    PodPolicy,
    PodPolicyError,
    check_added,
    check_pods,
    violations,
)
from tests.unit.taskset.documents import BASE, containers, main, pod, template, variant

MAIN = "spec.roles[0].template.spec.containers[0]"
POD = "spec.roles[0].template.spec"


def security(**context: Any) -> Any:
    return lambda d: main(d).update(securityContext=context)


FORBIDDEN = [
    (lambda d: pod(d).update(hostNetwork=True), f"{POD}.hostNetwork"),
    (lambda d: pod(d).update(hostPID="yes"), f"{POD}.hostPID"),
    (lambda d: pod(d).update(hostIPC=1), f"{POD}.hostIPC"),
    (security(privileged=True), f"{MAIN}.securityContext.privileged"),
    (security(procMount="Unmasked"), f"{MAIN}.securityContext.procMount"),
    (security(capabilities={"add": ["CHOWN", "SYS_ADMIN"]}), f"{MAIN}.securityContext.capabilities.add[1]"),
    (security(seccompProfile={"type": "Unconfined"}), f"{MAIN}.securityContext.seccompProfile.type"),
    (security(appArmorProfile={"type": "Unconfined"}), f"{MAIN}.securityContext.appArmorProfile.type"),
    (security(seLinuxOptions={"type": "spc_t"}), f"{MAIN}.securityContext.seLinuxOptions.type"),
    (security(seLinuxOptions={"user": "u"}), f"{MAIN}.securityContext.seLinuxOptions.user"),
    (security(windowsOptions={"hostProcess": True}), f"{MAIN}.securityContext.windowsOptions.hostProcess"),
    (lambda d: pod(d).update(securityContext={"seccompProfile": {"type": "Unconfined"}}),
     f"{POD}.securityContext.seccompProfile.type"),
    (lambda d: pod(d).update(securityContext={"sysctls": [{"name": "kernel.msgmax"}]}),
     f"{POD}.securityContext.sysctls[0].name"),
    (lambda d: pod(d)["initContainers"][0].update(securityContext={"privileged": True}),
     f"{POD}.initContainers[0].securityContext.privileged"),
    (lambda d: main(d).update(ports=[{"containerPort": 1, "hostPort": 80}]), f"{MAIN}.ports[0].hostPort"),
    (lambda d: main(d).update(livenessProbe={"httpGet": {"host": "db"}}), f"{MAIN}.livenessProbe.httpGet.host"),
    (lambda d: main(d).update(lifecycle={"preStop": {"tcpSocket": {"host": "db"}}}),
     f"{MAIN}.lifecycle.preStop.tcpSocket.host"),
    (lambda d: pod(d)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), f"{POD}.volumes[1].hostPath.path"),
    (lambda d: pod(d)["volumes"].append({"name": "h", "hostPath": {}}), f"{POD}.volumes[1].hostPath"),
    (lambda d: template(d).update(metadata={"annotations": {APPARMOR_ANNOTATION + "main": "unconfined"}}),
     f'spec.roles[0].template.metadata.annotations["{APPARMOR_ANNOTATION}main"]'),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "path"), FORBIDDEN, ids=[row[1] for row in FORBIDDEN])
def test_what_the_baseline_forbids_is_refused_where_it_stands(edit: Any, path: str) -> None:
    document = variant(edit)
    with pytest.raises(PodPolicyError) as caught:
        check_pods(document, BASELINE)
    assert list(caught.value.errors) == [path]
    assert "right would be" in caught.value.message
    with pytest.raises(PodPolicyError):
        check_added(BASE, document, BASELINE)
    check_pods(document, PodPolicy(baseline=False))


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: None,
        lambda d: pod(d).update(hostNetwork=False, hostPID=None),
        security(privileged=False, procMount="Default", capabilities={"add": ["KILL"], "drop": ["ALL"]}),
        security(seccompProfile={"type": "RuntimeDefault"}, seLinuxOptions={"type": "container_t", "level": "s0"}),
        lambda d: pod(d).update(securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}),
        lambda d: main(d).update(ports=[{"containerPort": 1, "hostPort": 0}], livenessProbe={"httpGet": {"path": "/"}}),
    ],
)
def test_what_the_baseline_allows_is_left_alone(edit: Any) -> None:
    check_pods(variant(edit), BASELINE)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data", True),
        ("/data/", True),
        ("/data/x", True),
        ("/data/../etc", False),
        ("/database", False),
        ("/", False),
        (7, False),
    ],
)
def test_host_paths_may_lie_in_directories_that_the_operator_names(path: Any, allowed: bool) -> None:
    document = variant(lambda d: pod(d)["volumes"].append({"name": "h", "hostPath": {"path": path}}))
    assert list(violations(template(document), PodPolicy(host_paths=("/data/", "/mnt")))) is not allowed


def test_what_the_user_asked_for_is_not_held_against_a_plugin() -> None:
    base = variant(
        lambda d: (
            security(privileged=True, capabilities={"add": ["SYS_ADMIN"]})(d),
            pod(d).update(hostNetwork=True),
            pod(d)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
        )
    )
    answer = variant(
        lambda d: (
            pod(d)["volumes"].insert(0, {"name": "n", "emptyDir": {}}),
            pod(d)["volumes"][-1]["hostPath"].update(type="Directory"),
            containers(d).insert(0, {"name": "side", "image": "x"}),
        ),
        base,
    )
    check_added(base, answer, BASELINE)
    main(answer)["securityContext"]["capabilities"]["add"].insert(0, "NET_ADMIN")
    with pytest.raises(PodPolicyError) as caught:
        check_added(base, answer, BASELINE)
    assert list(caught.value.errors) == [
        "spec.roles[0].template.spec.containers[1].securityContext.capabilities.add[0]"
    ]


@pytest.mark.parametrize("junk", [None, 1, "x", [], [1], {}, {"add": 1}])
def test_junk_in_the_loose_parts_never_crashes_the_check(junk: Any) -> None:
    document = variant(
        lambda d: (
            main(d).update(
                securityContext=junk, lifecycle=junk, livenessProbe=junk, ports=[{"containerPort": 1, "hostPort": junk}]
            ),
            pod(d).update(securityContext={"sysctls": junk, "windowsOptions": junk}),
            pod(d)["volumes"].append({"name": "x", "hostPath": junk}),
        )
    )
    for path, sentence in violations(template(document), BASELINE):
        assert path
        assert sentence
