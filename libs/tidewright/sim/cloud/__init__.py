"""A cloud of our own: node groups whose instances boot, fail and become Node objects.

config     groups, machine types, quotas and faults, as a YAML file says them
engine     what is ordered, what exists, what fails: pure, with time and chance as arguments
service    the engine running: instances become Node objects through the Kubernetes API, HTTP serves it

It lives in the simulator's process and is reached over HTTP, as a real cloud is: a slow, lost or
refused answer is a real one for the services. Its client is `tidewright.cloud.simulated`.
"""
