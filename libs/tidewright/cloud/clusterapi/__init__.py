"""Node groups that Cluster API drives: MachineDeployments, MachineSets and MachinePools of a management cluster.

config      what `clusterapi[:CONFIG]` and the environment say: which objects, where
places      under which paths the API server has their kinds
objects     a scalable resource and a Machine as they are read; limits, states of machines
followed    what is followed of it, and which Machines a resource has
template    the node that a resource would make, from annotations and infrastructure templates
marks       what is written on a Machine that is to go, and what it says after a crash
roles       what watcher and actuator may do there
client      the provider interface
"""
