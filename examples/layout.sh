#!/usr/bin/env bash
# layout.sh CC PROGRAM [ARGUMENT...]: PROGRAM prints what a language's declarations take to be so, each line a
# constant expression of C, such as offsetof(floe_comm_info_t, rank) == 4 or SIZE(floe_comm_info_t, rank) == 4.
# Are they true of floe.h?
set -euo pipefail
compiler=$1
shift
include=$(dirname "${BASH_SOURCE[0]}")/../include

claims=$("$@")
if (($(grep -c '==' <<<"$claims") < 20)); then
  printf '%s says too little about its declarations:\n%s\n' "$*" "$claims" >&2
  exit 1
fi
{
  echo '#include <floe/floe.h>'
  echo '#define SIZE(type, field) sizeof(((type *)0)->field)'
  while read -r claim; do
    echo "_Static_assert($claim, \"$claim\");"
  done <<<"$claims"
} | "$compiler" -std=c11 -I"$include" -x c -fsyntax-only -
