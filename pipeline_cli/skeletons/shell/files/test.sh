#!/usr/bin/env bash
# What the plugin answers to a packet that was recorded. Run: ./test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# A LifeHook answers a word, all others JSON.
as_json() { jq -S . 2>/dev/null <<<"$1" || jq -nR '$ARGS.positional[0]' --args "$1"; }

diff <(as_json "$(cat answer.json)") <(as_json "$(./answer.sh <packet.json)")
echo "the answer is the one that was recorded"
