from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.gpu import Gpu, read_gpu
from pipeline_core.flows.notation.mounts import joined, pod_fields, read_mounts
from pipeline_core.flows.notation.resources import (
    Amount,
    read_cpu,
    read_memory,
    read_node_selector,
    read_rdma,
)
from pipeline_core.flows.notation.site import Site
from tests.unit.flows.flow_cases import case

PLAIN = Site()


@pytest.mark.parametrize("row", case("gpu-notation.json"), ids=lambda row: repr(row["text"]))
def test_every_gpu_notation_means_what_the_table_says(row: dict[str, Any], site: Site) -> None:
    if row.get("error"):
        with pytest.raises(NotationError):
            read_gpu(row["text"], site)
        return
    gpu = read_gpu(row["text"], site)
    resource = site.gpu_resources[row["vendor"]] if "vendor" in row else row.get("resource")
    assert gpu.count == row.get("count", 0)
    assert gpu.share == (Decimal(str(row["share"])) if "share" in row else None)
    assert gpu.shared == row.get("shared", False)
    assert gpu.node_selector == row.get("nodeSelector", {})
    if row.get("count"):
        assert gpu.requests == {resource: str(row["count"])}


def test_a_share_is_asked_for_in_percent_of_a_card(site: Site) -> None:
    assert read_gpu("0.1(T4)", site).requests == {"nvidia.com/gpucores": "10", "nvidia.com/gpumem": "10"}


def test_a_share_of_memory_is_in_the_units_of_a_card_whose_memory_is_known() -> None:
    site = Site(vgpu_resource={"memory": "nvidia.com/gpumem", "memory_per_card": "16384"})
    assert read_gpu("0.5", site).requests == {"nvidia.com/gpumem": "8192"}


def test_a_share_is_refused_where_shares_are_not_given() -> None:
    with pytest.raises(NotationError, match="PIPELINE_VGPU_RESOURCE is not set"):
        read_gpu("0.5", PLAIN)


def test_a_shared_card_is_not_counted(site: Site) -> None:
    assert read_gpu(-1, site) == Gpu(shared=True, resource="nvidia.com/gpu", requests={})


@pytest.mark.parametrize(
    "text", ["1(V 100)", "1(-)", "0.123", "1(a,b,c)", "1(npu,)", "0.5(npu)", "１", "1(V100)x", "٣"]
)
def test_what_is_no_gpu_notation_is_refused(text: str, site: Site) -> None:
    with pytest.raises(NotationError):
        read_gpu(text, site)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", Amount("2", "2")),
        (2, Amount("2", "2")),
        (0.5, Amount("0.5", "0.5")),
        ("2~4", Amount("2", "4")),
        (" 0.5 ~ 0.5 ", Amount("0.5", "0.5")),
        ("", None),
        (None, None),
    ],
)
def test_cpu_is_a_request_and_a_limit(text: object, amount: Amount | None) -> None:
    assert read_cpu(text) == amount


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1e3", "2~", "~2", "4~2", "1~2~3", "2c", "+1", True, [], "1.0005"])
def test_what_is_no_cpu_is_refused(text: object) -> None:
    with pytest.raises(NotationError):
        read_cpu(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2G", Amount("2G", "2G")),
        ("500M~1Gi", Amount("500M", "1Gi")),
        ("1000Mi~1G", None),
        ("1G~1000M", Amount("1G", "1000M")),
    ],
)
def test_memory_keeps_its_units(text: str, amount: Amount | None) -> None:
    if amount is None:
        with pytest.raises(NotationError, match="asks for more than its limit"):
            read_memory(text)
    else:
        assert read_memory(text) == amount


@pytest.mark.parametrize("text", ["2", "2g", "2T", "0G", "1.5G", "8G~2G", "-2G", "G"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        read_memory(text)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    readers = [
        lambda: read_cpu(text),
        lambda: read_memory(text),
        lambda: read_gpu(text, PLAIN),
        lambda: read_rdma(text, PLAIN),
        lambda: read_mounts(text, "ann", PLAIN),
        lambda: read_node_selector(text),
    ]
    for reader in readers:
        with suppress(NotationError):
            reader()


def test_rdma_is_a_number_of_devices_where_there_are_any(site: Site) -> None:
    assert [read_rdma(text, site) for text in ("", "0", 1)] == [0, 0, 1]
    with pytest.raises(NotationError, match="PIPELINE_RDMA_RESOURCE"):
        read_rdma("1", PLAIN)
    with pytest.raises(NotationError, match="whole number"):
        read_rdma("0.5", site)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("", {}),
        ("org=a;train=true", {"org": "a", "train": "true"}),
        ("k8s.io/arch=arm64\nx=", {"k8s.io/arch": "arm64", "x": ""}),
    ],
)
def test_node_selectors_are_labels(text: str, selector: dict[str, str]) -> None:
    assert read_node_selector(text) == selector


@pytest.mark.parametrize("text", ["org", "=a", "a=b c", "a=1,a=2", "a/b/c=1", "org=a,b"])
def test_what_is_no_node_selector_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        read_node_selector(text)


def test_every_kind_of_mount_becomes_its_volume(site: Site) -> None:
    text = (
        "ws(pvc):/mnt,team（pvc-share）:/share;old(storage):/old, /data/k8s/models(hostpath):/models,16G(memory):/dev/shm;"
        "nccl-conf(configmap):/etc/nccl，10.0.0.9/export/corpus(nfs):/corpus,licence(secret):/lic/"
    )
    volumes, seen = pod_fields(read_mounts(text, "li.lei", site))
    assert [{key: value for key, value in volume.items() if key != "name"} for volume in volumes] == [
        {"persistentVolumeClaim": {"claimName": "ws"}},
        {"persistentVolumeClaim": {"claimName": "team"}},
        {"persistentVolumeClaim": {"claimName": "old"}},
        {"hostPath": {"path": "/data/k8s/models"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "16G"}},
        {"configMap": {"name": "nccl-conf"}},
        {"nfs": {"server": "10.0.0.9", "path": "/export/corpus"}},
        {"secret": {"secretName": "licence"}},
    ]
    assert seen[0] == {"name": "volume-0", "mountPath": "/mnt/li.lei", "subPath": "li.lei"}
    paths = ["/share", "/old", "/models", "/dev/shm", "/etc/nccl", "/corpus", "/lic"]
    assert [(mount["mountPath"], mount.get("subPath")) for mount in seen[1:]] == [(path, None) for path in paths]


def test_what_is_mounted_twice_is_one_volume(site: Site) -> None:
    volumes, seen = pod_fields(read_mounts("a(pvc-share):/x,a(pvc-share):/y", "ann", site))
    assert len(volumes) == 1
    assert [mount["name"] for mount in seen] == ["volume-0", "volume-0"]


def test_a_tasks_own_mount_stands_before_its_templates(site: Site) -> None:
    own, template = read_mounts("a(pvc-share):/x", "ann", site), read_mounts("b(storage):/x,c(storage):/y", "ann", site)
    assert [mount.path for mount in joined(own, template)] == ["/x", "/y"]
    assert joined(own, template)[0] is own[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ws(pvc):mnt", "must be absolute"),
        ("/data/../etc(hostpath):/x", "absolute, without `..`"),
        ("x(floppy):/mnt", "there is no kind"),
        ("/(hostpath):/host", "may not be mounted"),
        ("/data/k8s-other(hostpath):/host", "only what lies in /data/k8s"),
        ("ws(pvc):/a/../b", "without `..`"),
        ("ws(pvc):/mnt:ro", "without `..` and `:`"),
        ("other(secret):/s", "PIPELINE_MOUNT_SECRETS"),
        ("(memory):/m", "size"),
        ("1G~2G(memory):/m", "size"),
        ("10.0.0.9(nfs):/m", "server and directory"),
        ("Ws(pvc-share):/m", "no name"),
        ("a(storage):/x,b(storage):/x/", "two things at /x"),
        ("ws", "must be `name"),
    ],
)
def test_what_is_no_mount_is_refused(text: str, words: str, site: Site) -> None:
    with pytest.raises(NotationError, match=words):
        read_mounts(text, "ann", site)


@pytest.mark.parametrize("user", ["", "../x", "a/b", ".a"])
def test_a_creator_whose_name_is_no_directory_gets_no_claim(user: str, site: Site) -> None:
    with pytest.raises(NotationError, match="creator"):
        read_mounts("ws(pvc):/mnt", user, site)
    assert read_mounts("ws(storage):/mnt", user, site)
