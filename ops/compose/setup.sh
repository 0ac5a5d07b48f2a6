#!/bin/sh
# Makes what the two agents and a first client need: a region for each agent, the model, a tenant, its key, the agents. What
# exists stays as it is, so it can be repeated. Keys and tokens go to files in $KEYS, since they are shown once.
# Needs SWITCHYARD_URL and SWITCHYARD_ADMIN_KEY.
set -eu
umask 077
: "${KEYS:=/keys}" "${MODEL:=smollm2-135m-instruct}" "${CONTEXT:=2048}"

exists() { # noun id
  switchyard "$1" list --json --limit 10000 | grep -q "\"id\": \"$2\""
}

for region in region-1 region-2; do
  exists regions "$region" || switchyard regions create "$region"
done
exists models "$MODEL" || switchyard models create "$MODEL" --context "$CONTEXT"
exists tenants demo || switchyard tenants create --id demo --name Demo
[ -s "$KEYS/demo.key" ] || switchyard keys create demo --name compose --json | sed -n 's/.*"key": "\([^"]*\)".*/\1/p' > "$KEYS/demo.key"
for n in 1 2; do
  [ -s "$KEYS/agent-$n.token" ] && continue
  if exists agents "agent-$n"; then made=$(switchyard agents rotate "agent-$n" --json)
  else made=$(switchyard agents create "agent-$n" --region "region-$n" --json)
  fi
  printf '%s\n' "$made" | sed -n 's/.*"token": "\([^"]*\)".*/\1/p' > "$KEYS/agent-$n.token"
done
# The agents of compose.yaml read them as the user node.
if [ "$(id -u)" = 0 ]; then chown 1000:1000 "$KEYS"/*; fi
echo "The API key of the tenant demo is in $KEYS/demo.key."
