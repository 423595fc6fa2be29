"""An embedded Kubernetes API server that real clients cannot tell from the real one, where it matters here.

The way of a request, and the room of each step:

    server        socket, kubeconfig, journal, background work: what is started and stopped
    front         connections, and the simple requests on them; `answers` goes back, `streams` are watches on their way
    http          from requests to verbs and back; lists, discovery, errors; and what aiohttp has to read
    request       the path taken apart, options, media types; `match` reads its selectors, `protobuf` its protobuf
    api           what the verbs work on: store, kinds, rules; joins the rooms of this package
    reading       get, list, watch: resourceVersion semantics, pages
    writing       create, update, patch, deletecollection; `deletion` has the rules of going
    subresources  scale, binding, eviction, finalize
    strategies    prepare, default, validate: `metadata`, `names`, `defaults`, `pod_defaults`, `validate`, and by
                  kind `pod_rules`, `container_rules`, `workload_rules`, `config_rules`
    patch         merge, JSON and strategic patches; `managed`, `fieldsets`, `typing` and `applying` are server-side apply
    conversion    between the served versions of one stored kind
    store         objects as bytes, one counter of versions, bounded history; `journal` keeps them
    watch         a change becomes lines of streams

Beside requests: `gc` (owners, namespaces), `residents` (what every namespace has), `definitions` and `custom`
(CustomResourceDefinitions; `definition_rules`, `schema_rules` and `cel_fields` say what is wrong with one,
`structural`, `formats` and `rules` with its objects), `cel` (their expressions), `admission` (webhooks), `quota`,
`faults`, `requestlog` (what was asked, for tests).
What is described rather than done: `resources`, `builtin` and `schemas` (the kinds), `discovery`, `openapi`, `table`,
`columns` and `ages` (what kubectl prints), `reviews`, `errors` (Status objects), `go_text` (the words of Go's JSON decoder).

Not here: controllers, scheduler, kubelets. They are clients.
"""
