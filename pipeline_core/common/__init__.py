"""Small things that every other package uses: time, IDs, strict JSON, logging, encryption, failpoints."""
