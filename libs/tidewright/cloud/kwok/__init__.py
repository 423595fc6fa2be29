"""Nodes that are objects and nothing else: a kwok controller, or kubelets of the simulator, keep them ready.

config      the ConfigMaps that kwok's users have
roles       what watcher and actuator may do
client      the provider interface over Node objects
"""
