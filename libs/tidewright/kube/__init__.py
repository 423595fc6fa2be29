"""The Kubernetes client and what is pure about Kubernetes objects.

Shell: client (Kube: authenticated requests and watch streams as raw bytes), listwatch (one kind as
an endless stream), discovery (group and kind to path), clusterid (which cluster it is).
Pure: errors (what was refused, classified), kinds (the table of watched kinds), projection,
projection_capacity and shapes (object bytes to facts), podshape (a pod's shape and a node's view), podspecs (shapes read
from pod specs), templates (whether a patch of a template makes a pod), selectors (of labels and
fields), taints (who tolerates what), predicates (whether shape and node go together),
customworkloads (kinds of a whitelist, replicas at a path), metricquery (names of metric queries), quantities (exact amounts), readiness (which pods count as
ready), recommendation (the protocol of recommenders), mergepatch (RFC 7386), times (RFC 3339).
crds/ holds the CustomResourceDefinitions.
"""
