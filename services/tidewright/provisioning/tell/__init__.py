"""Provisioning in words and numbers. Pure.

lines        one line per event
sentences    decisions in words; amounts: those of resources
explaining   what `tidewright explain` says; opposites: what would have let a pod fit
what_if      what would be done about a request
exposition   series on /metrics; counts: those that the state keeps
parts        names of the parts of an evaluation, for who measures them
"""
