"""Provisioning in words and numbers. Pure.

lines        one line per event
sentences    decisions in words; amounts: those of resources; folding: much of the same said once
explaining   what `tidewright explain` says; opposites: what would have let a pod fit
awaiting     pods of a workload that are about to come
room         who keeps the room that pods do not find; labels: which one keeps a pod from nodes
what_if      what would be done about a request
exposition   series on /metrics; counts: those that the state keeps
parts        names of the parts of an evaluation, for who measures them
"""
