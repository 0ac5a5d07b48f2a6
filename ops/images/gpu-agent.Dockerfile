# syntax=docker/dockerfile:1
# The gpu-agent. Two targets, built at the repository's root:
#   docker build -f ops/images/gpu-agent.Dockerfile --target vllm -t switchyard-gpu-agent .             vLLM on NVIDIA GPUs
#   docker build -f ops/images/gpu-agent.Dockerfile --target embedded -t switchyard-agent-embedded .    a small model on the CPU
ARG NODE=node:24.21.0-bookworm-slim
ARG VLLM=vllm/vllm-openai:v0.32.0

FROM ${NODE} AS build
WORKDIR /src
COPY . .
RUN npm ci --ignore-scripts --no-audit --no-fund \
 && node lab/pack.ts --only @switchyard-llm/gpu-agent --out /packages

FROM ${NODE} AS install
WORKDIR /opt/switchyard
COPY ops/images/package.json vendor/empty-package-0.0.0.tgz ./
COPY --from=build /packages /packages
RUN npm install --ignore-scripts --omit=dev --no-audit --no-fund /packages/*.tgz

FROM ${NODE} AS embedded
COPY --from=install /opt/switchyard /opt/switchyard
RUN install -d -o node -g node -m 0700 /var/lib/switchyard
ENV PATH=/opt/switchyard/node_modules/.bin:$PATH
USER 1000:1000
VOLUME /var/lib/switchyard
EXPOSE 9000
ENTRYPOINT ["gpu-agent", "--listen", "0.0.0.0:9000", "--data-dir", "/var/lib/switchyard"]

# The image's own vLLM runs, with the scheduler plug-in that the agent brings.
FROM ${VLLM} AS vllm
COPY --from=install /usr/local/bin/node /usr/local/bin/node
COPY --from=install /opt/switchyard /opt/switchyard
ENV PATH=/opt/switchyard/node_modules/.bin:$PATH \
    SWITCHYARD_VLLM_PYTHON=python3 \
    HOME=/var/lib/switchyard
RUN install -d -o 1000 -g 1000 -m 0700 /var/lib/switchyard
USER 1000:1000
VOLUME /var/lib/switchyard
EXPOSE 9000
ENTRYPOINT ["gpu-agent", "--listen", "0.0.0.0:9000", "--data-dir", "/var/lib/switchyard", "--engine", "vllm"]
