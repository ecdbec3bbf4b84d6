"""Carries messages to the addresses that askers have named for their tasks. `roles/webhooks.py` makes the courier.
Nothing but `ports.webhooks` and aiohttp is imported."""
