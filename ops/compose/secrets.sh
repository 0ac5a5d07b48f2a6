#!/bin/sh
# Writes the secrets of compose.yaml to stdout: sh ops/compose/secrets.sh > .env
set -eu
umask 077
for name in KEY_PEPPER TICKET_SECRET ADMIN_KEY METRICS_TOKEN; do
  printf '%s=%s\n' "$name" "$(openssl rand -base64 32)"
done
