"""Identical requests to a deterministic model: each is answered, and only one is executed; answers are kept and
given again.

The gateway hands requests for such a model to `flights.Flights`, which uses the rest of this folder: all but those
with an Idempotency-Key and, over a bus, tasks. Slots over a bus use `once_each` for what is the same within one
batch. Like all of `runtime`, this knows no adapter: the store that gateways share stands behind
`ports.records.AnswerStore`.
"""
