"""The contract with everybody who reads the log: generates `proto/`, and refuses a breaking change.

schemas        a JSON Schema per event type
compatibility  what a schema may change without breaking the history
asyncapi       the AsyncAPI 3 document of all subjects, from the same types and the service table
openapi        what is answered over HTTP, from the table of questions
permissions    what each service may publish, for nats-server
writing        what each service may write on the log: the rights of the bus and the key record derive from it
rbac           what each service may do at the API server
actuatorroles  what the actuator may do there: a role per feature
deployment     Kubernetes manifests of all services, and of NATS; pods: what their pods have alike
               natsservers, network, smallcluster: parts of it; archivers, consoles, signedness: components beside it
helm           the same as templates of a chart
reference      the command line, settings, series, events and rights, for people; site: the pages of `make docs`
monitoring     alerts, runbooks and dashboards, from tables
golden         one sample of every event type, with every field said, that must decode for ever
tree           generated files as they should be against what lies there
__main__       the command: `python -m tidewright.cli.contract [--check | --golden]`

Nothing here is imported by a running service.
"""
