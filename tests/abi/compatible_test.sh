#!/usr/bin/env bash
# abi/compatible.sh refuses what breaks programs, for the right reason, and accepts what does not: each case
# is an edit of today's header.   usage: compatible_test.sh SOURCE_FOLDER
set -euo pipefail
root=$1
old_header=$root/include/floe/floe.h
old_map=$root/abi/floe.map
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
header=$scratch/floe.h
map=$scratch/floe.map
failed=0
cases=0

edit() { # edit FROM TO SED_EXPRESSION: the edit must change something
  sed -zE "${3:-}" "$1" >"$2"
  if [[ -n ${3:-} ]] && cmp -s "$1" "$2"; then
    echo "the edit does not fit $1 any more: $3" >&2
    exit 1
  fi
}

expect() { # expect STATUS REASON CASE HEADER_EDIT [MAP_EDIT]
  local status=0 output
  edit "$old_header" "$header" "$4"
  edit "$old_map" "$map" "${5:-}"
  output=$("$root/abi/compatible.sh" "$old_header" "$old_map" "$header" "$map" 2>&1) || status=$?
  if ((status == 77)); then
    echo "$output"
    exit 77
  fi
  cases=$((cases + 1))
  if [[ $status != "$1" || $output != *$2* ]]; then
    printf '%s: exit status %d, expected %d and "%s" in:\n%s\n' "$3" "$status" "$1" "$2" "$output" >&2
    failed=1
  fi
}

refused() { expect 1 "$@"; }
accepted() { expect 0 '' "$@"; }

append='s/\n(\} floe_comm_info_t;)/\n  uint64_t appended;\n\1/'

accepted 'nothing changed' 's/ \*/  */'
accepted 'appended field' "$append"
accepted 'new function' 's/\n(FLOE_API floe_status_t floe_barrier)/\nFLOE_API floe_status_t floe_new(void);\n\1/' \
  's/$/FLOE_NEW { global: floe_new; } FLOE_0.1;\n/'
accepted 'new enumerator' 's/FLOE_SUM = 0,/&\n  FLOE_NEW = 1000,/'
accepted 'new constant' 's/\n#define FLOE_ANY_SOURCE/\n#define FLOE_NEW 1&/'
accepted 'named reserved field' 's/uint32_t reserved;/uint32_t flags;/'

refused 'Removed function' 'removed function' 's/\nFLOE_API floe_status_t floe_barrier\([^;]*;//' 's/ floe_barrier;//'
refused 'floe_barrier@@FLOE_0.1' 'function under another version' 's/ \*/  */' \
  's/ floe_barrier;//; s/$/FLOE_NEW { global: floe_barrier; } FLOE_0.1;\n/'
refused 'floe_comm_set_timeout(' 'changed parameter' 's/(floe_comm_set_timeout\([^;]*)uint64_t/\1uint32_t/'
refused 'floe_barrier' 'new parameter' 's/(floe_barrier\([^;]*)\);/\1, uint32_t flags);/'
refused 'floe_version' 'changed result' 's/uint32_t floe_version/uint64_t floe_version/'
refused 'enumerator' 'changed enumerator' 's/FLOE_UINT64 = 11/FLOE_UINT64 = 1000/'
refused 'enumerator' 'removed enumerator' 's/  FLOE_MIN = 3,[^\n]*//'
refused 'FLOE_ANY_SOURCE' 'changed constant' 's/(FLOE_ANY_SOURCE )UINT32_MAX/\1 0x7fffffff/'

refused 'struct floe_comm_info' 'field in the middle' \
  's/(struct floe_comm_info \{\n  uint32_t struct_size;)/\1\n  uint32_t inserted;/'
refused 'struct floe_comm_info' 'removed field' 's/\n  uint32_t direct;//'
refused 'struct floe_comm_info' 'field of another type' 's/uint32_t direct;/int32_t direct;/'
# These libabigail overlooks beside an appended field.
refused 'struct floe_comm_info' 'field of another type, and an appended one' \
  "s/uint32_t local_rank;/int32_t local_rank;/; $append"
refused 'struct floe_comm_info' 'fields swapped, and an appended one' \
  "s/local_rank;/swapped;/; s/local_size;/local_rank;/; s/swapped;/local_size;/; $append"
refused 'struct floe_store' 'callback with another parameter' 's/(\(\*get\)\([^;]*)uint64_t capacity/\1uint32_t capacity/'
refused 'floe_context_config_t may grow' 'struct that may grow inside another' \
  's/\n(\} floe_comm_info_t;)/\n  floe_context_config_t inner;\n\1/'
refused 'union inside a struct' 'unnamed union inside a struct' \
  's/\n(\} floe_comm_info_t;)/\n  union {\n    uint64_t a;\n    void *b;\n  } u;\n\1/'

# What the header of today has none of: a struct that can't grow, and types that no function mentions.
point='typedef struct floe_point {\n  uint32_t x;\n} floe_point_t;'
flag='typedef enum floe_flag {\n  FLOE_FLAG = 1\n} floe_flag_t;'
edit "$old_header" "$scratch/more.h" "s/\n\} floe_comm_info_t;/&\n$point\n$flag\n/"
old_header=$scratch/more.h
refused 'struct floe_point' 'field appended to a struct without struct_size' 's/\n(\} floe_point_t;)/\n  uint32_t y;\1/'
refused 'FLOE_FLAG' 'changed enumerator of a type that no function mentions' 's/FLOE_FLAG = 1/FLOE_FLAG = 2/'

echo "$cases edits judged"
exit "$failed"
