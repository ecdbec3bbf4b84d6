"""Carries messages to the addresses that askers have named for their tasks. `roles/webhooks.py` makes the courier,
which knows `ports.webhooks` and aiohttp."""
