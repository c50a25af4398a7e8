"""The suite that every driver passes, on a node that runs pods for real."""

from __future__ import annotations

from tests.integration.clusters.test_cluster_conformance import *  # noqa: F403
