#!/usr/bin/env bash
# expect.sh N PROGRAM [ARGUMENT...]: runs an all_reduce example as N ranks; all of them must succeed and print
# what every language's does.
set -euo pipefail
ranks=$1
shift

expected=$(
  for ((rank = 0; rank < ranks; rank++)); do
    who="rank $rank of $ranks"
    echo "$who: refused with FLOE_ERR_UNSUPPORTED: avg of int32 is not defined: use sum, or a floating-point type"
    echo "$who: 1 + ... + $ranks = $((ranks * (ranks + 1) / 2))"
  done
)
# A file per rank: what ranks write to one pipe can mix within a line.
printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
export printed
# shellcheck disable=SC2016 # expanded by each rank's shell
"$(dirname "${BASH_SOURCE[0]}")/launch.sh" "$ranks" bash -c '"$@" >"$printed/$RANK"' rank "$@"
diff --label expected --label printed -u <(echo "$expected") <(cat "$printed"/*)
