"""The Kubernetes API as the services see it.

quantities    exact amounts (`250m`, `1.5Gi`) in integers
"""
