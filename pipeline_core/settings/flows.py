"""Settings of flows: what their tasks may use, and alerts about their runs."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.settings.declaration import (
    Pairs,
    integer,
    mail_address,
    mail_server,
    named,
    pairs,
    ports,
    receivers,
    setting,
    words,
)


@dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """What tasks of flows may use."""

    gpu_resources: Pairs = setting(
        pairs,
        (("gpu", "nvidia.com/gpu"),),
        "Vendors of GPUs that tasks may request, each with its Kubernetes resource, as a JSON object. `gpu` is the default "
        "of tasks that name no vendor.",
    )
    vgpu_resource: Pairs = setting(
        pairs,
        (),
        "Kubernetes resources for a share of a GPU, as a JSON object: `cores` (requested in percent of a card) and "
        "`memory` (in percent too, or in parts of `memory_per_card`). Empty: no shares.",
    )
    rdma_resource: str = setting(
        named("the name of a resource, such as `rdma/hca`"),
        "",
        "Kubernetes resource of an RDMA device. Empty: tasks may request none.",
    )
    mount_secrets: tuple[str, ...] = setting(words, (), "Secrets, comma-separated, that tasks of flows may mount.")
    host_ports: str = setting(
        ports,
        "20000-29999",
        "Host ports, as `first-last`, that are leased to tasks of flows which need them: tasks with the host's network, and "
        "distributed ones on the local cluster.",
    )
    run_max_bytes: int = setting(
        integer,
        64 * 1024 * 1024,
        "How much a run may store: the values of its flow's `global_env`, once and again with each task, and all TaskSets of its "
        "tasks' jobs together.",
        unit="bytes",
    )
    debug_seconds: int = setting(
        integer, 3600, "How long the pod of a debug run sleeps in place of the task's command.", unit="s", least=1
    )


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """Alerts about runs of flows."""

    alert_url: Pairs = setting(
        receivers,
        (),
        "Where alerts about changes of the states of runs are sent, for flows that ask for them: one URL, or several as a JSON "
        "object with a name for each. `https://…` gets JSON; `slack+https://…`, `dingtalk+https://…` and `feishu+https://…` "
        "get what these take, signed with the URL's password if it has one; `mailto:ops@example.org` gets mail. Empty: "
        "nowhere.",
        secret=True,
    )
    alert_authorization: str = setting(
        named("the value of a header, such as `Bearer …`"),
        "",
        "What alerts as JSON carry in the header `Authorization`.",
        secret=True,
    )
    alert_signing_secret: str = setting(
        named("`whsec_` and base64"),
        "",
        "What alerts as JSON are signed with (`whsec_` and base64), as calls of plugins are.",
        secret=True,
    )
    alert_sender: str = setting(mail_address, "", "Whom alerts by mail come from, as `pipeline@example.org`.")
    smtp_url: str = setting(
        mail_server,
        "",
        "The mail server: `smtp://user:password@host:587` (STARTTLS is required), `smtps://user:password@host:465` (TLS from the "
        "beginning) or `smtp+plain://host:25` (no TLS, and no login).",
        secret=True,
    )
