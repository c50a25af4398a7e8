"""PostgreSQL, the record of everything.

- `engine`: the connections of a process, and transactions. An engine is made at its first use in a process, never before a
  fork. `urls`: the parts of a database's URL.
- `models`: the tables; `migrate` and `migrations`: bringing a database to their form; `revisions`: which form it has;
  `backups`: writing it to a file, and back
- `wakeups`: notes to publish a message after the commit; `log_lines`: notes to write a log line after it
- `locks`: locks and leases by name; `rows`: inserting rows of several tables at once; `prepared`: statements that PostgreSQL
  plans once for each session; `counting`: counting rows up to a limit

From outside use `transaction()` for work, `connected()` for single statements, `execute_alone` for a prepared one,
`own_transaction` for one that a session executes at its end, `again_if_contended` for functions that are one transaction, and the
other modules; of `engine` only what a heartbeat or a document has to have without a transaction.
"""

from pipeline_core.database.engine import again_if_contended, connected, execute_alone, own_transaction, transaction

__all__ = ["again_if_contended", "connected", "execute_alone", "own_transaction", "transaction"]
