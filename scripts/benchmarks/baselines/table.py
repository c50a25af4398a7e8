"""The table that `bare_flask` stores in."""

CREATE = "CREATE TABLE bare (id bigserial PRIMARY KEY, document json NOT NULL)"
INSERT = "INSERT INTO bare (document) VALUES (%s) RETURNING id"
