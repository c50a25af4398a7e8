"""The least that other programs need for the same: what the service is compared with."""
