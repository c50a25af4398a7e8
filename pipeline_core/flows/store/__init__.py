"""Stored flows and templates: creating, replacing, importing, exporting, deleting and finding them."""
