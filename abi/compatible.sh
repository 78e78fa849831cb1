#!/usr/bin/env bash
# Does a program that was built with the OLD header run with a library of the NEW one?
# usage: abi/compatible.sh OLD_HEADER OLD_MAP NEW_HEADER NEW_MAP     exit status 77: abidiff is missing
#
# abidiff compares two libraries of empty functions, made from the headers and version scripts: the real
# library is optimised and has no debug info, and the compiler refuses a function of it that differs from its
# declaration (abi/check.sh compares the names). What abidiff can't judge is judged by the headers' text.
set -euo pipefail
export LC_ALL=C
if (($# != 4)); then
  sed -n 3p "$0" >&2
  exit 2
fi
if ! command -v abidiff >/dev/null; then
  echo 'skipped: there is no abidiff: apt-get install abigail-tools'
  exit 77
fi
folder=$(dirname "${BASH_SOURCE[0]}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

complain() {
  printf '%s\n' "$*" >&2
  failed=1
}

stub() { # stub HEADER MAP LIBRARY: a library that defines what HEADER declares
  { printf '#line 1 "%s"\n' "$1"; sed -zE 's/\nFLOE_API ([^;]*);/\nFLOE_API \1 { __builtin_trap(); }/g' "$1"; } |
    "${CC:-cc}" -x c -std=c99 -g -w -fno-eliminate-unused-debug-types -fPIC -shared \
      -Wl,--version-script="$2" -Wl,--no-undefined-version -Wl,-soname,libfloe.so.0 -o "$3" -
}

declarations() { "${CC:-cc}" -E -P -x c "$1" | tr -s '[:space:]' ' '; } # without comments, on one line

# The macros, which programs have compiled in. The initialisers grow with their structs.
constants() {
  "${CC:-cc}" -E -dM -x c "$1" | grep -E '^#define FLOE_' |
    sed -E 's/(FLOE_[A-Z_]+_INIT|FLOE_VERSION_[A-Z]+) .*/\1/' | sort
}

# Structs only get new fields at their end, and only those that say their size. A reserved field may get a name.
compare_structs() { # compare_structs OLD NEW: their declarations
  local struct pattern
  while read -r struct; do
    pattern=$(sed -E 's/[][(){}*.?+^$|\\]/\\&/g; s/\breserved\b/[a-z0-9_]+/g' <<<"$struct")
    [[ $struct != *'{ uint32_t struct_size;'* ]] || pattern=${pattern%' \}'}
    grep -qE "$pattern" <<<"$2" || complain "the new header does not begin like this, or may not add to it: $struct"
  done < <(grep -oE 'struct floe_[a-z0-9_]+ \{[^}]*\}' <<<"$1")
}

# What grows must not move what comes after it.
check_structs() { # check_structs DECLARATIONS
  local type
  while read -r type; do
    ! grep -qE "\b$type [a-z_]" <<<"$1" || complain "$type may grow: it may be passed and stored only as a pointer"
  done < <(grep -oE '\{ uint32_t struct_size;[^}]*\} floe_[a-z0-9_]+' <<<"$1" | grep -oE '[a-z0-9_]+$')
  ! grep -qE '\{[^}]*\{' <<<"$1" || complain 'a struct or union inside a struct: name it, and store a pointer'
}

stub "$1" "$2" "$scratch/old.so"
stub "$3" "$4" "$scratch/new.so"
abidiff --no-added-syms --non-reachable-types --suppressions "$folder/floe.abignore" \
  "$scratch/old.so" "$scratch/new.so" >&2 || complain 'abidiff: see above'

missing=$(comm -23 <(constants "$1") <(constants "$3"))
[[ -z $missing ]] || complain "the new header lacks, or has another value for: $missing"
old=$(declarations "$1")
new=$(declarations "$3")
compare_structs "$old" "$new"
check_structs "$new"

((failed == 0)) || complain "$3 breaks programs that were built with $1 (abi/README.md)"
exit "$failed"
