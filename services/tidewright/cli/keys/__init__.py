"""`tidewright keys`: who may say what on the log.

folder      a folder with the root key and the keys of services
manifests   the same for Kubernetes: a Secret per service, the trust anchor
commands    `new`, `install` and `show`
app         the commands, and where each is made
"""
