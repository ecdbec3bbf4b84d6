"""Who asks: turns an API key or a token into an identity.

Made by `roles/auth.py` and called by the data plane through `ports.Doorman`. Reads no configuration and no store.
"""
