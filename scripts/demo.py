"""What `scripts/demo` does once the project is installed: a whole service with plugins, and a TFJob's way through it.

Everything runs on free ports and in a directory of its own, and ends with the demo, however that ends. The directory stays
only when there is something to read in it: after a failure, or with --keep.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PIPELINE = Path(sys.executable).with_name("pipeline")
PLUGINS_PORT_IN_FILES = ":9100/"
READY_SECONDS = 120.0
DELIVERED_SECONDS = 30.0
STOP_SECONDS = 45.0
# Not through a proxy of the environment: all of it is on this machine.
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DemoFailed(Exception):
    """Says what failed; `log` is where more stands."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


@dataclass
class Background:
    """A process that runs beside the demo, in a session of its own: a Ctrl-C is the demo's alone to handle."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, argv: list[str], log: Path, environment: dict[str, str]) -> Background:
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        return cls(name, log, process)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise DemoFailed(f"{self.name} ended with exit code {self.process.returncode}", self.log)
            if time.monotonic() > deadline:
                raise DemoFailed(f"{self.name} was not ready within {seconds:.0f} s", self.log)
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends the process, by force with all of its session when it takes too long."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Demo:
    directory: Path
    environment: dict[str, str]
    running: list[Background] = field(default_factory=list)

    def start(self, name: str, *argv: str, ready: Callable[[], bool]) -> None:
        log = self.directory / f"{name.replace(' ', '-')}.log"
        background = Background.start(name, list(argv), log, self.environment)
        self.running.append(background)
        background.wait_until(ready, READY_SECONDS)

    def pipeline(self, *words: str) -> None:
        """Shows a command of the command line, and what it prints as it prints it."""
        print(f"$ pipeline {shlex.join(words)}", flush=True)
        code = subprocess.run([PIPELINE, *words], env=self.environment, cwd=ROOT, check=False).returncode
        if code:
            raise self.failure(words, code)

    def ask(self, *words: str) -> Any:
        """The payload that a command prints as JSON."""
        done = subprocess.run(
            [PIPELINE, *words, "--output", "json"], env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, check=False
        )
        if done.returncode:
            raise self.failure(words, done.returncode)
        return json.loads(done.stdout)

    def failure(self, words: tuple[str, ...], code: int) -> DemoFailed:
        return DemoFailed(f"`pipeline {shlex.join(words)}` ended with exit code {code}", self.directory)

    def stop(self) -> None:
        for background in reversed(self.running):
            background.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with LOCAL.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def own_environment(url: str) -> dict[str, str]:
    """This process's environment without what would make the demo somebody else's service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    return kept | {"PIPELINE_URL": url, "PIPELINE_TOKEN": "admin", "PYTHONUNBUFFERED": "1"}


def feature_files(directory: Path, port: int) -> list[str]:
    """Copies of the example features whose addresses have the plugins' port."""
    copies = directory / "features"
    copies.mkdir()
    for original in sorted((EXAMPLES / "features").glob("*.yaml")):
        text = original.read_text(encoding="utf-8")
        (copies / original.name).write_text(text.replace(PLUGINS_PORT_IN_FILES, f":{port}/"), encoding="utf-8")
    return [str(path) for path in sorted(copies.iterdir())]


def heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def show(demo: Demo, url: str, plugins: str) -> str:
    """The demo itself; the ID of the job that it ran."""
    heading("The service, with a PostgreSQL and a Redis of its own")
    data = demo.directory / "data"
    port = url.rpartition(":")[2]
    demo.start(
        "the service",
        *(str(PIPELINE), "up", "--port", port, "--data-dir", str(data), "--stop-jobs"),
        ready=lambda: answers(f"{url}/readyz"),
    )
    print(f"answers at {url}")

    heading("The example plugins: one process, all six types")
    plugins_port = plugins.rpartition(":")[2]
    demo.start(
        "the plugins",
        *(sys.executable, str(EXAMPLES / "plugins" / "server.py"), "--port", plugins_port),
        ready=lambda: answers(f"{plugins}/received"),
    )
    print(f"answer at {plugins}")

    heading("Features register plugins")
    demo.pipeline("feature", "register", *feature_files(demo.directory, int(plugins_port)), "--on")
    demo.pipeline("plugins")

    heading("A TFJob on its way through the stages")
    submission = ("submit", "examples/jobs/tfjob.yaml", "--user", "demo", "--header", "user_role=admin")
    print(f"$ pipeline {shlex.join(submission)}")
    job = str(demo.ask(*submission)["jobID"])
    print(job)
    demo.pipeline("wait", job)

    heading("The TaskSet that it became")
    demo.pipeline("taskset", job)
    heading("Its replicas")
    demo.pipeline("job", job)
    heading("What they wrote")
    demo.pipeline("logs", job, "--tail", "20")
    heading("What the LifeHook received")
    wait_for_deliveries(demo, job)
    demo.pipeline("deliveries", "--job", job)
    return job


def wait_for_deliveries(demo: Demo, job: str) -> None:
    """Waits until the subscriber has acknowledged each of the job's events."""
    events = len(demo.ask("events", job))
    deadline = time.monotonic() + DELIVERED_SECONDS
    while True:
        found = demo.ask("deliveries", "--job", job)
        if len(found) == events and all(delivery["status"] == "delivered" for delivery in found):
            return
        if time.monotonic() > deadline:
            raise DemoFailed(f"{events} events, but not as many deliveries are done: {found}", demo.directory)
        time.sleep(0.2)


def farewell(demo: Demo, url: str, plugins: str, job: str) -> None:
    pids = " ".join(str(background.process.pid) for background in reversed(demo.running))
    print(
        f"""
It goes on running.
  service   {url}  (Swagger UI at {url}/docs)
  plugins   {plugins}  ({plugins}/received shows what the LifeHook received)
  files     {demo.directory}
  stop it   kill {pids}
  then      rm -r {shlex.quote(str(demo.directory))}

To use it from here:
  export PATH={shlex.quote(str(PIPELINE.parent))}:$PATH PIPELINE_URL={url} PIPELINE_TOKEN=admin
Then try:
  pipeline trail {job}
  pipeline submit examples/jobs/taskset.yaml --wait
  pipeline submit examples/jobs/tfjob.yaml --wait -H gate=suspend    # and, elsewhere, pipeline resume ID
  pipeline submit examples/jobs/tfjob.yaml --name tf-re2 --wait      # a LifeHook that asks for a retry
Over HTTP, the header is `token: admin` or `Authorization: Bearer admin`:
  curl -H 'token: admin' {url}/v1/job/list"""
    )


def tell_failure(error: DemoFailed, directory: Path) -> None:
    print(f"\ndemo: {error}", file=sys.stderr)
    if error.log and error.log.is_file():
        lines = error.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        print("\n".join(f"  | {line}" for line in lines), file=sys.stderr)
    print(f"demo: its log is {error.log or directory}; all logs are under {directory}", file=sys.stderr)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the service, the example plugins and a TFJob on this machine.")
    parser.add_argument(
        "--keep", action="store_true", help="return, but leave it all running, and say how to use and stop it"
    )
    keep = parser.parse_args().keep
    # SIGINT too: a shell starts what runs in the background with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    began = time.monotonic()
    url, plugins = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    directory = Path(tempfile.mkdtemp(prefix="pipeline-demo-"))
    demo = Demo(directory, own_environment(url))
    left_running, logs_wanted = False, True
    try:
        job = show(demo, url, plugins)
        logs_wanted = False
        if keep:
            farewell(demo, url, plugins, job)
            left_running = True
    except DemoFailed as error:
        tell_failure(error, directory)
        return 1
    except KeyboardInterrupt:
        logs_wanted = False
        print("\ndemo: interrupted; stopping what it started", file=sys.stderr)
        return 130
    finally:
        if not left_running:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            demo.stop()
            if not logs_wanted:
                shutil.rmtree(directory, ignore_errors=True)
    print(f"\nsucceeded in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
