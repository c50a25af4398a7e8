"""Where control groups may be made."""

from __future__ import annotations

import pytest

from pipeline_core.clusters.local.cgroups import paths_to_own_group

FIRST = """\
30 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:30 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
34 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
SECOND = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
USERS = "/sys/fs/cgroup/user.slice/user-1.slice"


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (SECOND, "0::/\n", {"": ["/sys/fs/cgroup"]}),
        (
            SECOND,
            "0::/user.slice/user-1.slice\n",
            {"": ["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice", USERS]},
        ),
        # In a container that sees the host's path, its own group is what is mounted.
        (SECOND.replace(" / /sys", " /docker/abc /sys"), "0::/docker/abc\n", {"": ["/sys/fs/cgroup"]}),
        (SECOND, "0::/../elsewhere\n", {"": ["/sys/fs/cgroup"]}),
        (SECOND.replace(" / /sys", " /.. /sys"), "0::/../a\n", {"": ["/sys/fs/cgroup", "/sys/fs/cgroup/a"]}),
        (SECOND.replace(" / /sys", " /docker/abc /sys"), "0::/elsewhere\n", {"": ["/sys/fs/cgroup"]}),
        (
            FIRST,
            "3:cpu,cpuacct:/\n2:memory:/a\n1:name=systemd:/b\n0::/\n",
            {
                "": ["/sys/fs/cgroup/unified"],
                "cpu": ["/sys/fs/cgroup/cpu,cpuacct"],
                "cpuacct": ["/sys/fs/cgroup/cpu,cpuacct"],
                "memory": ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a"],
                "name=systemd": ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/systemd/b"],
            },
        ),
        ("25 1 0:5 / /proc rw - proc proc rw\n", "0::/\n", {}),
    ],
)
def test_the_path_from_the_top_of_a_mount_to_the_own_group(
    mounts: str, own: str, expected: dict[str, list[str]]
) -> None:
    assert paths_to_own_group(mounts, own) == expected
