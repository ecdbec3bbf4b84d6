"""Turns an API key or a token into an identity: who asks.

`roles/auth.py` puts it together, and the data plane calls it through `ports.gateway.Doorman`. Nothing here reads
the configuration; stores of keys are behind the Protocol in `records.py`.
"""
