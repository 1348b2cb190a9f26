# Build: the lock file's packages, then one bundle. Nothing of this stage is shipped but /src/dist.
FROM node:24-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json ./
COPY src src
RUN npm run build

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /src/dist /app
# The ledger is the only thing that is written: mount a volume here, the rest may be read-only.
RUN mkdir -p /var/lib/coinslot && chown node:node /var/lib/coinslot
USER node
VOLUME /var/lib/coinslot
EXPOSE 8402 9402
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9402/livez').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/main.js"]
CMD ["serve", "/etc/coinslot/gateway.yaml"]
