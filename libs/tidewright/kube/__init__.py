"""The Kubernetes client and what is pure about Kubernetes objects.

Shell:
    client       `Kube`: authenticated requests and watch streams as raw bytes
    library      what is used of kubernetes_asyncio
    listwatch    one kind as an endless stream
    discovery    group and kind to path
    clusterid    which cluster it is
Pure:
    errors       what was refused, classified
    kinds        the table of watched kinds
    projection/, shapes
                 object bytes to facts
    podshape     a pod's shape and a node's view; podspecs: shapes read from pod specs; podtemplates: what is kept of a template
    predicates   whether shape and node go together
    taints, volumes     parts of that: taints with tolerations, what volumes ask of a node
    devices/     what claims ask of devices, which devices will do, and how they are handed out
    podapi/      pods as the API server checks and patches them
    workloadspreads/    what WorkloadSpreads say, and where by that a pod goes
    protobuf     bodies of typed clients
    celfunctions functions that Kubernetes adds to CEL
    quotascopes  which pods a ResourceQuota means
    keys         `namespace/name`
    ownership    which CustomResourceDefinitions are ours to change; webhooks: how the API server calls our endpoints
    unknown      fields that nobody knows, since they are misspelt; nearest: what may have been meant
    windows      windows of time that come again
    templates    whether a patch of a template makes a pod
    customworkloads     kinds of a whitelist, replicas at a path
    conditions   conditions of objects: set with their transition times, found, written
    readiness    which pods count as ready
    recommendation      the protocol of recommenders
    metricquery  names of metric queries
    yamltext, csvtext, expressions      what people write: YAML, CSV and regular expressions, within bounds
    selectors, quantities, times, durations, digits     labels and fields, exact amounts, RFC 3339, Go's durations, whole numbers
    mergepatch, jsonpatch               RFC 7386, RFC 6902
    strategicmerge, mergekeys           strategic merge patches, and how each field of a built-in kind merges

crds/ holds the CustomResourceDefinitions.
"""
