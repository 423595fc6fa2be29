"""`tidewright cloud`: our clouds, for others.

command      `cloud serve`
held         who orders at which clouds on this machine
announcing   what is served, said in the cluster
"""
