"""Simulated nodes: thousands of kubelets in one process.

nodes      Node objects and leases: manifests, conditions, heartbeats
pods       what a pod's status says while it starts, runs, crashes and finishes
timers     when something is due, for any number of pods
kubelets   the loop: pods bound to our nodes start, get ready, end, and are deleted

Only nodes with the label of `tidewright.sim.options.NODE_LABEL` are ours; nothing else is touched,
so that all of this also runs beside a real control plane.
"""
