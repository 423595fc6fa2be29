"""The verbs.

reading       get, list, watch: resourceVersion semantics, pages; match: selectors over stored objects
writing       create, update, patch, delete, deletecollection
patch         JSON, merge and strategic patches
deletion      grace periods, finalizers, preconditions, dependents
subresources  scale, binding, eviction, finalize
disruptions   what the store holds when a pod or a machine is to go, for the request log
watch         a change becomes lines of streams
reviews       who am I, and may I
"""
