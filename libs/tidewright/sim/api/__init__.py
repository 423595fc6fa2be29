"""An embedded Kubernetes API server that real clients cannot tell from the real one, where it matters here.

The way of a request goes through these rooms:

    server        socket, kubeconfig, journal, background work: what is started and stopped
    http/         from connections and requests to verbs and back; discovery, tables, OpenAPI, faults
    api           what the verbs work on: store, kinds, rules; joins the rooms of this package
    verbs/        read, write, patch, delete, watch, subresources
    apply/        server-side apply: who owns which field
    admission/    webhooks and quota: who is asked about a write
    kinds/        the built-in kinds: described, defaulted, validated
    crd/          CustomResourceDefinitions, their schemas, expressions and conversions
    store/        objects as bytes, one counter of versions, a journal; garbage collection
    errors        Status objects

Not here: controllers, scheduler, kubelets. They are clients.
"""
