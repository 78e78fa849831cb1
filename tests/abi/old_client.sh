#!/usr/bin/env bash
# Runs old_client as 2 ranks. It must use every function of its release.   usage: old_client.sh PROGRAM MAP
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT

released=$(grep -oE '^ +floe_[a-z0-9_]+;' "$2" | tr -d ' ;' | sort)
used=$(nm -D --undefined-only "$1" | grep -oE '\bfloe_[a-z0-9_]+' | sort)
diff --label "$2" --label "$1" -u <(echo "$released") <(echo "$used")

"$root/examples/launch.sh" 2 "$1" "$store"
