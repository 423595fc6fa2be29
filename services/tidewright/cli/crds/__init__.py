"""`tidewright crds`: the CustomResourceDefinitions in a cluster that may have them from somebody else.

choosing     what to do with one that is there, or absent (pure)
installing   does it, and waits until what was made is served
overwritten  which ones an earlier version took from their vendor, and how to repair that (pure)
command      the command
"""
