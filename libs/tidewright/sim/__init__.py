"""The embedded cluster: a Kubernetes API server, its controllers, nodes and cloud, for laptops and tests.

    api/     the API server: an HTTP server over an in-memory store with a journal; knows no controllers

Everything else in here is a client of `api` and speaks HTTP to it, as it would to a real API server.
"""
