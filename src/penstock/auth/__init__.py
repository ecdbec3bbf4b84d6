"""Turns an API key or a token into an identity: who asks.

`roles/auth.py` puts it together, `doorkeeper.py` keeps its keys up to date, and the data plane calls it for each
request through `ports.gateway.Doorman`. `penstock keys` makes keys with it (`cli/keys.py`).
Nothing here reads the configuration or knows a store: stores of keys are behind the Protocol in `records.py`, which
`adapters` implement. Only `ports` and the vocabulary are imported.
"""
