"""Requests from a process of their own: `python -m scripts.benchmarks.load URL TOKEN CONNECTIONS SECONDS`.

Posts the body on standard input over so many connections that are kept open, and prints the milliseconds of each
request as a JSON array, after the seconds that all of them took together.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit


def post(url: str, token: str, body: bytes, until: float, took: list[float]) -> None:
    """Send one request after the other on one connection until the time is over."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    headers = {"Content-Type": "application/json", "token": token}
    while (started := time.perf_counter()) < until:
        connection.request("POST", parts.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        took.append((time.perf_counter() - started) * 1000)
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {answer.decode()}")
    connection.close()


def main() -> None:
    url, token, connections, seconds = sys.argv[1:]
    body = sys.stdin.buffer.read()
    took: list[float] = []
    started = time.perf_counter()
    until = started + float(seconds)
    threads = [threading.Thread(target=post, args=(url, token, body, until, took)) for _ in range(int(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([time.perf_counter() - started, *took]))


if __name__ == "__main__":
    main()
