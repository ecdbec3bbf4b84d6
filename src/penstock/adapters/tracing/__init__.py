"""Traces for OpenTelemetry, encoded here and sent over OTLP/HTTP. `roles/tracing.py` puts the parts together.

    request_spans.py   the request at its gateway          ┐
    batch_spans.py     its wait, and the batch it went in  ├─► otlp.py: bytes ─► exporter.py ─► receiver.py
    run_spans.py       that batch on its worker            ┘   on the loop       a thread      OTLP/HTTP

`context.py` reads and writes `traceparent`; `sampler.py` says which requests are traced.
"""
