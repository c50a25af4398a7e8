"""The `pipeline` command: a thin client of the REST API, and the commands that run the service on this machine.

`main` is the entry point; nothing else here is meant to be imported from outside. A module of commands has those of
one noun, and is imported when one of them is invoked; the others print, read files and call the API for them.
`pipeline --help` loads neither the server nor an HTTP library.
"""

from __future__ import annotations

import click

from pipeline_cli import version
from pipeline_cli.group import Entry, LazyGroup

COMMANDS = {
    "submit": Entry("pipeline_cli.submit:submit", "Submit a job from a YAML or JSON file."),
    "explain": Entry(
        "pipeline_cli.submit:explain", "Show which plugins would be called for a job, without submitting it."
    ),
    "jobs": Entry("pipeline_cli.jobs:jobs", "List or count jobs."),
    "job": Entry("pipeline_cli.jobs:job", "Show a job with its tasks and replicas."),
    "config": Entry("pipeline_cli.jobs:config", "Show a job as it was submitted."),
    "taskset": Entry("pipeline_cli.jobs:taskset", "Show the TaskSet that a job became."),
    "trail": Entry("pipeline_cli.jobs:trail", "Show every plugin call of a job."),
    "events": Entry("pipeline_cli.jobs:events", "Show every state change of a job, and its deliveries."),
    "logs": Entry("pipeline_cli.logs:logs", "Print what a job's replicas wrote."),
    "wait": Entry("pipeline_cli.jobs:wait", "Show a job's progress until it has ended."),
    "stop": Entry("pipeline_cli.jobs:stop", "Stop a job."),
    "resume": Entry("pipeline_cli.jobs:resume", "Resume a suspended job."),
    "retry": Entry("pipeline_cli.jobs:retry", "Submit a failed or stopped job again, as a new job."),
    "flow": Entry("pipeline_cli.flows:flow", "Import, export, run and schedule flows."),
    "template": Entry("pipeline_cli.templates:template", "Import and show templates of tasks."),
    "run": Entry("pipeline_cli.runs:run", "Show one run with its tasks, by the run's ID."),
    "runs": Entry("pipeline_cli.runs:runs", "List runs of all flows; stop, retry, mark or delete one."),
    "backfill": Entry("pipeline_cli.schedules:backfills", "Show, stop and resume backfills of flows."),
    "feature": Entry("pipeline_cli.features:feature", "Register, show and switch features."),
    "plugins": Entry("pipeline_cli.plugins:plugins", "List plugins in running order."),
    "plugin": Entry(
        "pipeline_cli.plugins:plugin", "Write, check, try, show and promote plugins, and change their order."
    ),
    "deliveries": Entry("pipeline_cli.plugins:deliveries", "List deliveries of events to LifeHooks, and their status."),
    "redeliver": Entry("pipeline_cli.plugins:redeliver", "Send deliveries again that were given up."),
    "token": Entry("pipeline_cli.tokens:token", "Create, list and delete tokens."),
    "status": Entry("pipeline_cli.operations:status", "Show the state of the service, and its problems."),
    "doctor": Entry("pipeline_cli.doctor:doctor", "Show what is wrong with this installation, and what to do."),
    "audit": Entry("pipeline_cli.operations:audit", "List who changed what, the newest first."),
    "secrets": Entry("pipeline_cli.operations:secrets", "Manage the keys of the secrets that the service stores."),
    "database": Entry("pipeline_cli.database:database", "Manage the service's database."),
    "backup": Entry("pipeline_cli.backups:backup", "Write a backup of the service's database into a new file."),
    "restore": Entry(
        "pipeline_cli.backups:restore", "Restore a backup into an empty database, and upgrade its schema."
    ),
    "up": Entry("pipeline_cli.up:up", "Run the whole service on this machine until Ctrl-C."),
    "api": Entry("pipeline_cli.processes:api", "Run the REST API."),
    "worker": Entry(
        "pipeline_cli.processes:worker",
        "Run a worker: of one kind, or of all kinds but the stages.",
    ),
    "beat": Entry("pipeline_cli.processes:beat", "Run beat, which sends the ticks."),
    "watch": Entry("pipeline_cli.processes:watch", "Run the watcher, which follows the cluster."),
    "completion": Entry("pipeline_cli.completion:completion", "Print the completion script of a shell."),
}

main = LazyGroup(
    "pipeline",
    entries=COMMANDS,
    help="Submit jobs to a Pipeline service, and manage jobs, flows and features.",
    epilog="The service is the one at PIPELINE_URL (http://127.0.0.1:8080); PIPELINE_TOKEN is the token or password.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=version.show,
    help="Show the version and the commit, and exit.",
)(main)
