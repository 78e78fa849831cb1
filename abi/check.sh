#!/usr/bin/env bash
# The functions of the public header, of the version script, of abi/exported.txt and of the library must be
# the same, and the library must load where libfabric is not installed.   usage: abi/check.sh libfloe.so
set -euo pipefail
export LC_ALL=C
library=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
expected=$root/abi/exported.txt
failed=0

same() { # same WHAT EXPECTED FOUND
  local difference
  if ! difference=$(diff --label abi/exported.txt --label "$1" -u <(sort <<<"$2") <(sort <<<"$3")); then
    printf '%s differs from abi/exported.txt:\n%s\n' "$1" "$difference" >&2
    failed=1
  fi
}

names=$(sed 's/@@.*//' "$expected")
declared=$(grep -hoE '^FLOE_API [^(]*\bfloe_[a-z0-9_]+\(' "$root"/include/floe/*.h | grep -oE 'floe_[a-z0-9_]+\($')
mapped=$(grep -oE '^ +floe_[a-z0-9_]+;' "$root/abi/floe.map")
# Type A is the version node itself.
exported=$(nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }')
same include/floe "$names" "$(tr -d '(' <<<"$declared")"
same abi/floe.map "$names" "$(tr -d ' ;' <<<"$mapped")"
same "$library" "$(<"$expected")" "$exported"

dynamic=$(readelf -d "$library")
if ! grep -q 'SONAME.*\[libfloe\.so\.0\]' <<<"$dynamic"; then
  echo "$library: its SONAME is not libfloe.so.0" >&2
  failed=1
fi
if grep -q 'NEEDED.*\[libfabric' <<<"$dynamic"; then
  echo "$library needs libfabric, which must be opened at run time only when ranks span hosts" >&2
  failed=1
fi
exit "$failed"
