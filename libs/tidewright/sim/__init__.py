"""The embedded cluster: a Kubernetes API server, its controllers, nodes and metrics, for laptops and tests.

    api/          the API server: an HTTP server over an in-memory store with a journal; knows no controllers
    controllers/  what the controller manager does, over one cache
    scheduler/    which node a pod gets
    kubelets/     nodes and pods that start, get ready, end, crash and are lost
    metrics/      the metrics APIs
    nats_server   the embedded log server: its program and its configuration
    cloud/        node groups whose instances boot, fail and become nodes
    cluster       all of it as one thing to start and stop; options: of what it is made
    direct        requests to an API server of the same process
    nodefaults    nodes and pods that fail on request
    load          recorded clusters, replayed
    delays        distributions, drawn from a seed

Everything but `api` is a client of an API server, ours or any other.
"""
