#!/usr/bin/env bash
# check.sh MODEL.pml [OPTION...]: explores every interleaving of the model, and then of the model with each of the
# defects that its head lists, which must be found.
set -euo pipefail
model=$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work"
shift
cd "$work"

errors() { # errors OPTION...: how many the exhaustive search finds
  spin "$@" -a "$model" >spin.log || { cat spin.log >&2; return 1; }
  cc -O0 -DSAFETY -DMEMLIM=2048 -DCOLLAPSE -w -o pan pan.c
  ./pan -m1000000 >pan.log # seconds at most: optimised, it would save less than that takes
  # A search that was cut short has shown nothing.
  if grep -qE 'max search depth too small|out of memory|aborted|MEMLIM' pan.log; then
    cat pan.log >&2
    return 1
  fi
  sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
}

found=$(errors "$@")
states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.log)
if [[ $found != 0 ]]; then
  cat pan.log
  spin "$@" -t -p -g "$model" | tail -n 60
  exit 1
fi
printf '%s: no error in %s states\n' "$model" "$states"
mapfile -t bugs < <(grep -o -- '-DBUG_[A-Z_]*' "$model")
for bug in "${bugs[@]}"; do
  found=$(errors "$@" "$bug")
  [[ $found != 0 ]] || { printf '%s is not found\n' "$bug"; exit 1; }
  printf '%s is found\n' "$bug"
done
