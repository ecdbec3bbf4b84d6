"""Traces for OpenTelemetry, encoded here and sent over OTLP/HTTP. `roles/traces.py` puts the parts together.

    request_spans.py   the request at its gateway          ┐
    batch_spans.py     its wait, and the batch it went in  ├─► exporter.py ─► otlp.py ─► receiver.py
    run_spans.py       that batch on its worker            ┘   noted          written     sent
      on the event loop                                        a thread, from here on

`ways.py` says by which way a request came;
`context.py` reads and writes `traceparent`; `sampler.py` says which requests are traced. The doors call
`request_spans.py` through `ports.tracing`, and the other spans are observers of batches. Only ports and the
vocabulary are imported, and no OpenTelemetry.
"""
