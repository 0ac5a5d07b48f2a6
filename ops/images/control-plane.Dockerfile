# syntax=docker/dockerfile:1
# The control plane of `switchyard up --production`, from the npm package as it is published. Build it at the repository's root:
#   docker build -f ops/images/control-plane.Dockerfile -t switchyard .
ARG NODE=node:24.21.0-bookworm-slim

FROM ${NODE} AS build
WORKDIR /src
COPY . .
RUN npm ci --ignore-scripts --no-audit --no-fund \
 && node lab/pack.ts --only @switchyard-llm/switchyard --out /packages

FROM ${NODE} AS install
WORKDIR /opt/switchyard
COPY ops/images/package.json vendor/empty-package-0.0.0.tgz ./
COPY --from=build /packages /packages
RUN npm install --ignore-scripts --omit=dev --no-audit --no-fund /packages/*.tgz

FROM ${NODE}
COPY --from=install /opt/switchyard /opt/switchyard
RUN install -d -o node -g node -m 0700 /var/lib/switchyard
ENV PATH=/opt/switchyard/node_modules/.bin:$PATH
USER 1000:1000
WORKDIR /var/lib/switchyard
VOLUME /var/lib/switchyard
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8787/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["switchyard"]
CMD ["up", "--production", "--bind", "0.0.0.0", "--port", "8787", "--data-dir", "/var/lib/switchyard"]
