"""Pods as the API server checks and patches them. Pure.

schema       the fields of a pod as data: names, types, merge keys
merging      strategic merge of a patch into a pod, and reading the result back
rules        what a pod's spec must satisfy; containerrules: a container
termrules    what node selector terms and tolerations must satisfy
nodeterms    node selector terms, taints and tolerations: does a node fit
fielderrors  errors about fields; labels, annotations and owners
names        the grammar of names, labels and annotations
"""
