"""The contract with everybody who reads the log: generates `proto/`, and refuses a breaking change.

schemas        a JSON Schema per event type
compatibility  what a schema may change without breaking the history
asyncapi       the AsyncAPI 3 document of all subjects, from the same types and the service table
permissions    what each service may publish, for nats-server
rbac           what each service may do at the API server
deployment     Kubernetes manifests of all services, and of NATS; pods: what their pods have alike
helm           the same as templates of a chart
reference      the command line, settings, series, events and rights, for people; site: the pages of `make docs`
monitoring     alerts, runbooks and dashboards, from tables
golden         one sample of every event type, with every field said, that must decode for ever
tree           generated files as they should be against what lies there
__main__       the command: `python -m tidewright.cli.contract [--check | --golden]`

Nothing here is imported by a running service.
"""
