"""What the autoscaler has workers added and removed with: each file is one `ports.scaling.Hand`.
`roles/autoscaler.py` chooses one by `autoscaler.act`."""
