"""Reading what clients send: one collector of validation errors, one notation of paths."""
