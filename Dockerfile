# The service without an API keys file answers on loopback addresses only, and a container's port
# is none. So run it in one of these ways:
#
#   with API keys (made by `onceledger key`):
#     docker run -p 8080:8080 -v onceledger:/data \
#       -v "$PWD/keys.toml:/etc/onceledger/keys.toml:ro" \
#       -e ONCELEDGER_API_KEYS_FILE=/etc/onceledger/keys.toml onceledger
#
#   without, where nobody else reaches the port:
#     docker run -p 127.0.0.1:8080:8080 -v onceledger:/data onceledger serve --insecure
#
# The default database is SQLite on the /data volume; -e DATABASE_URL=postgres://… is the choice
# for production, and -e AMQP_URL=amqp://… lets it consume queues. A bind mount in place of the
# volume, and the keys file, must be open to user 10001.

FROM rust:1.95-bookworm AS builder
WORKDIR /build
# The dependencies alone first, around an empty program: this layer is built again only when they
# change. The empty program's own build results go, so that no file time can make cargo keep them.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
    && touch src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin onceledger \
    && cargo clean --release --locked --package onceledger \
    && rm -r src
COPY . .
RUN cargo build --release --locked --bin onceledger

FROM debian:bookworm-slim
# Root certificates should be the newest, so no version is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin onceledger \
    && install --directory --owner=onceledger --group=onceledger --mode=750 /data
COPY --from=builder /build/target/release/onceledger /usr/local/bin/onceledger
ENV DATABASE_URL=sqlite:///data/onceledger.db \
    ONCELEDGER_HTTP_ADDR=0.0.0.0:8080
# By number, so that an orchestrator can see that it isn't root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["onceledger", "healthcheck"]
ENTRYPOINT ["onceledger"]
CMD ["serve"]
