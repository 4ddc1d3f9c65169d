# Build: docker build --build-arg TORCH_INDEX=<PyTorch's CPU wheel index> --tag ragway .
# Run:   docker compose up (compose.yaml), or see there what a container of its own needs.

FROM python:3.11-slim-bookworm AS build

ARG TORCH_INDEX=""
RUN if [ "$(uname -m)" = x86_64 ] && [ -z "$TORCH_INDEX" ]; then \
        echo 'TORCH_INDEX is not set. Give the CPU wheel index shown on the "Get Started" page of PyTorch: --build-arg TORCH_INDEX=...' >&2; \
        exit 1; \
    fi

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH

WORKDIR /src
COPY requirements/runtime.txt constraints.txt ./
RUN pip install --no-deps --require-hashes -r runtime.txt
RUN pip install "$(sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)" -c constraints.txt \
        ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}

COPY pyproject.toml README.md LICENSE ./
COPY cli cli
COPY config config
COPY evaluation evaluation
COPY proxy proxy
COPY retrieval retrieval
COPY runtime runtime
RUN pip install --no-deps --no-build-isolation .
ARG EXTRAS=""
RUN if [ -n "$EXTRAS" ]; then pip install "ragway[$EXTRAS]" -c constraints.txt; fi


FROM python:3.11-slim-bookworm

RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin ragway \
    && mkdir /data \
    && chown ragway /data

COPY --from=build /opt/venv /opt/venv
COPY docs /app/docs

# RAGWAY_DATA, not a flag of CMD: `docker exec … ragway ingest` must find the same folder.
# HF_HOME: another embedding model, once downloaded, stays in the volume.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 RAGWAY_DATA=/data HF_HOME=/data/models
WORKDIR /app
USER ragway
VOLUME /data
EXPOSE 8000

# Straight to the gateway, whatever HTTP_PROXY says.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import ProxyHandler, build_opener; from cli.common import settings_of; build_opener(ProxyHandler({})).open(f'http://127.0.0.1:{settings_of(None).server.port}/healthz', timeout=4)"]

# Beyond loopback the gateway refuses to start without keys unless RAGWAY_AUTH__OPEN=true says that something else guards it.
CMD ["ragway", "serve", "--host", "0.0.0.0"]
