from __future__ import annotations

import pytest

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.mounts import merge, pod_fields, read_mounts
from pipeline_core.flows.notation.site import Site


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
    assert [mount.path for mount in merge(own, template)] == ["/x", "/y"]
    assert merge(own, template)[0] is own[0]


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
