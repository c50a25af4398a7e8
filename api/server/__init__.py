"""How requests reach the application: gunicorn, with a worker whose threads wait for no client.

A request is received by the worker's event loop; a thread gets it once it is whole, and leaves to the loop what the client has
not taken of its answer. So connections that send or read a byte a second cost memory, which is limited, and no threads.

- `request_reader`: whether what was received of a request is enough to serve it
- `client_socket`: a socket that keeps what the client does not take yet
- `connections`: all open connections, and which of them is closed when there are too many
- `worker`: the worker, which gunicorn loads by its name
"""
