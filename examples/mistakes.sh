#!/usr/bin/env bash
# mistakes.sh PROGRAM [ARGUMENT...]: starts an all_reduce example in ways in which it can't work. Each must fail in
# time with an error that says what to do.
set -euo pipefail

directory=$(dirname "${BASH_SOURCE[0]}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT FLOE_STORE_PORT FLOE_TIMEOUT_MS

pids=()
mistake() { # mistake "WORDS OF THE ERROR" COMMAND...
  local words=$1 output=$scratch/${#pids[@]}
  shift
  {
    local status=0
    timeout 40 "$@" >"$output" 2>&1 || status=$?
    if ((status == 0 || status == 124)) || ! grep -q "FLOE_ERR_.*$words" "$output"; then
      printf '%s\nends with %d and should say: %s\n' "$*" "$status" "$words"
      cat "$output"
      exit 1
    fi
  } &
  pids+=($!)
}

program=("$@")

# launch.sh gives each of them a port that nobody listens on.
alone() { # alone RANK "WORDS OF THE ERROR"
  # shellcheck disable=SC2016 # expanded by the rank's shell
  mistake "$2" "$directory/launch.sh" 1 bash -c 'RANK='"$1"' WORLD_SIZE=2 exec "$@"' rank "${program[@]}"
}

mistake 'ENVIRONMENT: no launcher has set this process.s rank' "${program[@]}"
mistake 'ENVIRONMENT: RANK=.0. is set, but WORLD_SIZE is not' env RANK=0 "${program[@]}"
mistake "RANK='2' is not a whole number from 0 to 1" env RANK=2 WORLD_SIZE=2 "${program[@]}"
mistake "MASTER_PORT='none' is not" env RANK=0 WORLD_SIZE=2 MASTER_PORT=none "${program[@]}"
mistake "FLOE_SHM='maybe' is not valid: use on, off" env RANK=0 WORLD_SIZE=2 FLOE_SHM=maybe "${program[@]}"
alone 0 'STORE: .*rank 1 of 2 did not arrive'
alone 1 'STORE: no connection to the store .* Check that rank 0 has started'

failed=0
for pid in "${pids[@]}"; do
  wait "$pid" || failed=1
done
exit "$failed"
