"""A minimal watcher: reads the events of a watch and writes each to the database by itself. `python -m … URL`."""

from __future__ import annotations

import json
import os
import sys

import psycopg2
import requests


def main() -> None:
    connection = psycopg2.connect(os.environ["PIPELINE_DATABASE_URL"])
    with requests.get(sys.argv[1], stream=True, timeout=300) as response, connection.cursor() as cursor:
        for line in response.iter_lines(chunk_size=None):
            pod = json.loads(line)["object"]
            labels = pod["metadata"]["labels"]
            cursor.execute(
                'UPDATE replicas SET state = %s WHERE job_id = %s AND role = %s AND "index" = %s',
                (
                    pod["status"]["phase"].lower(),
                    labels["pipeline/job-id"],
                    labels["pipeline/role"],
                    int(labels["pipeline/replica-index"]),
                ),
            )
            connection.commit()


if __name__ == "__main__":
    main()
