# docker build -t penstock .      (podman build --format docker -t penstock . keeps the health check)
# docker run --rm -p 8000:8000 -v "$PWD":/app penstock serve app.py:batchstring --auth none --allow-anonymous
# docs/production.md has more: GPUs, keys, stopping, your own dependencies.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
# Which extras besides redis, which is always there: jwt, postgres, grpc, ws, or all.
ARG EXTRAS=""
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/penstock \
 && /opt/penstock/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/penstock/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/penstock/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
 && if [ -n "$EXTRAS" ]; then \
      /opt/penstock/bin/pip install --no-cache-dir "$(echo /dist/*.whl)[$EXTRAS]"; \
    fi \
 && /opt/penstock/bin/pip check \
 && /opt/penstock/bin/penstock --version

FROM python:${PYTHON}-slim
# At home in /data, so that what a model's library downloads is kept there too.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin penstock \
 && install -d -o penstock -g penstock /data /app
COPY --from=build /opt/penstock /opt/penstock
# Inside a container "everywhere" is what clients can reach; who may ask must still be said (--auth, --allow-anonymous).
ENV PATH=/opt/penstock/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PENSTOCK_SERVER_HOST=0.0.0.0 \
    PENSTOCK_AUTH_KEYS_FILE=/data/penstock-keys.json \
    PENSTOCK_LEDGER_SPOOL=/data/penstock-ledger
WORKDIR /app
VOLUME /data
# By number: Kubernetes' runAsNonRoot can tell from it that this is not root.
USER 10001:10001
EXPOSE 8000
# Loops that turn, not models that are loaded: a model may take minutes, and a busy GPU is no reason to restart.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ.get('PENSTOCK_SERVER_ADMIN_PORT', '9000') + '/livez', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["penstock"]
CMD ["serve"]
