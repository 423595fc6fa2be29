"""Clouds behind a server that speaks Cluster Autoscaler's externalgrpc protocol, and such a server of our own.

client      the provider interface over that protocol
config      the client's file: address, certificates, time-out
errors      faults of gRPC to errors and back
objects     messages to values and back; Kubernetes objects among them
server      any of our clouds, for others
wire/       generated from proto/cloud by `make generate`
"""
