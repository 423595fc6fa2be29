"""What people watch: alerts with their runbooks, and dashboards, for Prometheus and Grafana.

alerts       the table of alerts, as Prometheus loads it
runbooks     the same table as `docs/reference/runbooks.md`
dashboards   five dashboards, as Grafana's JSON
"""
