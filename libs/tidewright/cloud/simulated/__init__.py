"""The simulated cloud's client. The cloud itself is `tidewright.sim.cloud`.

client     the provider interface over its HTTP, for watcher and actuator
wire       what goes over that HTTP
"""
