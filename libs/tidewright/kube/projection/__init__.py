"""Raw object bytes to facts: only the fields that some decider uses, decoded once. Pure.

One function per kind, each `bytes -> Projection`; `tidewright.kube.kinds` lists them. A projection's fact has
`at` 0: whoever publishes it stamps it. Objects that cannot be read raise `Malformed`, which names the object.

    reading      what all share: metadata, owners, annotations, the error
    forms        what objects have to be like that facts have as they are stored
    pods         pods, with their shapes
    nodes        nodes
    workloads    kinds with replicas, a selector and a template; scales
    resources    custom resources: spec and status as they are stored
    capacity     what provisioning and the shard manager look at besides: templates, daemon sets, quotas, requests
    placement    what decides where pods may run besides nodes and pods: storage, devices, namespaces
"""
