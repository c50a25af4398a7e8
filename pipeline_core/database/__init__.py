"""PostgreSQL: the record of everything. From outside, use `transaction()` for work, `connected()` for a single statement,
`again_if_contended` for functions that are one transaction, the models for its shape, and `migrate` for the schema. An
engine belongs to one process and is made there on first use, never before a fork.
"""

from pipeline_core.database.engine import again_if_contended, connected, transaction

__all__ = ["again_if_contended", "connected", "transaction"]
