"""The `pipeline` command: a thin client of the REST API, and the commands that run the service on this machine.

`main` is the entry point; nothing else here is meant to be imported from outside. A module is one noun of the command
line, and none is imported before its command is asked for: `pipeline --help` loads neither server nor HTTP library.
"""

from __future__ import annotations

import click

from api.cli.group import Entry, LazyGroup

COMMANDS = {
    "submit": Entry("api.cli.submit:submit", "Submit a job from a YAML or JSON file."),
    "explain": Entry("api.cli.submit:explain", "Show which plugins a job would meet, without submitting it."),
    "jobs": Entry("api.cli.jobs:jobs", "List or count jobs."),
    "job": Entry("api.cli.jobs:job", "Show a job with its tasks and replicas."),
    "config": Entry("api.cli.jobs:config", "Show a job as it was submitted."),
    "taskset": Entry("api.cli.jobs:taskset", "Show the TaskSet that a job became."),
    "trail": Entry("api.cli.jobs:trail", "Show every plugin call of a job."),
    "events": Entry("api.cli.jobs:events", "Show every state change of a job and who was told."),
    "logs": Entry("api.cli.logs:logs", "Print what a job's replicas wrote."),
    "wait": Entry("api.cli.jobs:wait", "Show a job's way as it happens, until it has ended."),
    "stop": Entry("api.cli.jobs:stop", "Stop a job."),
    "resume": Entry("api.cli.jobs:resume", "Let a suspended job go on."),
    "retry": Entry("api.cli.jobs:retry", "Submit a failed or stopped job again, as a new job."),
    "flow": Entry("api.cli.flows:flow", "Import, export, run and schedule flows."),
    "template": Entry("api.cli.templates:template", "Import and show templates of tasks."),
    "run": Entry("api.cli.runs:run", "Show a run of a flow with its tasks."),
    "runs": Entry("api.cli.runs:runs", "List, stop and retry runs of flows."),
    "backfill": Entry("api.cli.schedules:backfills", "Show, stop and resume backfills of flows."),
    "feature": Entry("api.cli.features:feature", "Register, show and switch features."),
    "plugins": Entry("api.cli.plugins:plugins", "List plugins in running order."),
    "deliveries": Entry("api.cli.plugins:deliveries", "List what LifeHooks were told, and how it went."),
    "token": Entry("api.cli.tokens:token", "Create, list and delete tokens."),
    "status": Entry("api.cli.operations:status", "Show how the service stands, and what is amiss."),
    "secrets": Entry("api.cli.operations:secrets", "Look after the secrets that the service stores."),
    "database": Entry("api.cli.database:database", "Look after the service's database."),
    "up": Entry("api.cli.up:up", "Run the whole service on this machine until Ctrl-C."),
    "completion": Entry("api.cli.completion:completion", "Print the completion script of a shell."),
}

main = LazyGroup(
    "pipeline",
    entries=COMMANDS,
    help="Submit jobs to a Pipeline service and look after them.",
    epilog="The service is the one at PIPELINE_URL (http://127.0.0.1:8080); PIPELINE_TOKEN is the token or password.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
click.version_option(package_name="pipeline-service", prog_name="pipeline")(main)
