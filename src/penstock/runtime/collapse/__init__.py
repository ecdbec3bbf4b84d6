"""Identical requests to a deterministic model: each is answered, and only one is executed. `runtime/gateway.py`
hands requests for such models to `flights.Flights`, which uses the rest of this folder; `once_each` is used by
slots."""
