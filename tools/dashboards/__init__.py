"""Makes the dashboards for Grafana in deploy/grafana. Each is written in a file of its own here: `overview`,
`model`, `workers` and `fleet`.

    make dashboards

A test keeps the files and this code together, and runs every query against a real Prometheus.
"""
