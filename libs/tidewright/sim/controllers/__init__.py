"""The simulated controller manager, and the machinery that all simulated components share.

objects        what is read of Kubernetes objects
cache          stores kept by list and watch; what we wrote is in them at once
plan           what one look at an object concludes
writes         requests as values, and their execution
recorder       object events; telling: their words
queue          keys to look at again: coalesced, spaced, retried
manager        all controllers running over one cache
replicasets, deployments, statefulsets, daemonsets, jobs, budgets, node_lifecycle
               one controller each: pure arithmetic first, then `reconcile`
rollout        how many pods each ReplicaSet of a Deployment may have next
revisions      the templates that StatefulSets and DaemonSets have had

A controller is a client over HTTP as any other, and its `reconcile` is pure: it looks at the cache
and returns writes. Nothing here runs beside a real controller manager.
"""
