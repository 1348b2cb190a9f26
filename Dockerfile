# docker build -t coinslot .
#
# What runs is one folder of JavaScript and Node itself: no npm, no packages, no shell script. The last stage is plain
# Debian of the release that Node's own image is made of, because Node wants its C++ library and nothing else. A smaller
# base would save some 70 MB that machines share between images anyway, and cost a second registry and the shell with
# which one looks around. Both are pinned by the digest of their index of all platforms; newer ones are given so:
#   docker build --build-arg NODE=node:24.21.0-bookworm-slim --build-arg BASE=debian:bookworm-slim .
ARG NODE=node:24.21.0-bookworm-slim@sha256:2fe369e969550cde8e867afc3fe370b260140cab4a23d467074295b42163d553
ARG BASE=debian:bookworm-20260918-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251

FROM ${NODE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
# What the bundle is made of, and rolldown, which makes it: no tests, checks or types. None needs its install script.
RUN npm ci --omit=dev --ignore-scripts
COPY tsconfig.json ./
COPY bundle bundle
COPY src src
RUN npm run build

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="coinslot" \
  org.opencontainers.image.description="A reverse proxy that sells an HTTP backend's answers over x402" \
  org.opencontainers.image.version="${VERSION}"
ENV NODE_ENV=production
COPY --from=build /usr/local/bin/node /usr/local/bin/node
# What goes with the packages in the bundle is in its folder; this goes with Node.
COPY --from=build /usr/local/LICENSE /usr/share/doc/node/LICENSE
COPY --from=build /src/dist /app
# All that is ever written is a SQLite ledger, in /var/lib/coinslot: with PostgreSQL nothing is.
RUN ["install", "-d", "-o", "10001", "-g", "10001", "-m", "700", "/var/lib/coinslot"]
WORKDIR /var/lib/coinslot
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
VOLUME /var/lib/coinslot
EXPOSE 8402 9402
# It drains on SIGTERM: let it have `shutdown.delay` and `shutdown.within`, and some seconds to close.
STOPSIGNAL SIGTERM
# Asks the admin listener (`admin: 0.0.0.0:9402` or `127.0.0.1:9402`); without one, set your own or --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9402/livez').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# Where a container's memory is limited, Node makes its youngest objects' room so small (1 MiB of 512) that most requests
# outlive it. 8 MiB cost 10 MiB of memory, and a free route a fifth less of the processor's time.
ENTRYPOINT ["node", "--max-semi-space-size=8", "/app/main.js"]
CMD ["serve", "/etc/coinslot/gateway.yaml"]
