"""What of the Helm chart follows from the table of services: `deploy/helm/tidewright/templates/generated/`.

markup      values of the chart in manifests, and manifests with them as templates
scaling     an autoscaler of Kubernetes for services whose replicas share the work
templates   the manifests of `deploy/kubernetes/`, with what the chart lets people choose

Chart.yaml, values.yaml, its schema and the other templates are written by hand, and checked against the table by tests.
"""
