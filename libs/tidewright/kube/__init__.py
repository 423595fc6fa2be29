"""The Kubernetes client and what is pure about Kubernetes objects.

Shell: client (Kube: authenticated requests and watch streams as raw bytes), listwatch (one kind as
an endless stream), discovery (group and kind to path).
Pure: errors (what was refused, classified), kinds (the table of watched kinds), projection and
shapes (object bytes to facts), podshape (a pod's shape and a node's view), podspecs (shapes read
from pod specs), taints (who tolerates what), predicates (whether shape and node go together),
metricquery (names of metric queries), quantities (exact amounts), readiness (which pods count as
ready), recommendation (the protocol of recommenders), mergepatch (RFC 7386).
crds/ holds the CustomResourceDefinitions.
"""
