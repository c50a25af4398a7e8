"""Direct calls with one `requests.Session`: `python -m scripts.benchmarks.baselines.bare_calls COUNT URL...`.

Says `ready`, waits for a line on standard input with the body of the calls, then POSTs it to each URL in turn, COUNT
times over, and prints the seconds that this took.
"""

from __future__ import annotations

import sys
import time

import requests


def main() -> None:
    count, urls = int(sys.argv[1]), sys.argv[2:]
    with requests.Session() as session:
        session.headers["Content-Type"] = "application/json"
        print("ready", flush=True)
        body = sys.stdin.readline()
        started = time.perf_counter()
        for _ in range(count):
            for url in urls:
                session.post(url, body).raise_for_status()
        print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
