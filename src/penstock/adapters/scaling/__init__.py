"""The hands of the autoscaler, with which it has workers added and removed: each file holds implementations of
`ports.scaling.Hand`. `roles/autoscaler.py` chooses one by `autoscaler.act`."""
