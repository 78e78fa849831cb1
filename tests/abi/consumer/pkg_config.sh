#!/usr/bin/env bash
# Builds and runs main.c with what pkg-config says of an installed floe.
# usage: pkg_config.sh COMPILER INSTALL_PREFIX VERSION OUTPUT
set -euo pipefail
compiler=$1 prefix=$2 version=$3 output=$4
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name floe.pc)")
export PKG_CONFIG_PATH

found=$(pkg-config --modversion floe)
if [[ $found != "$version" ]]; then
  echo "pkg-config says version $found, the project has $version" >&2
  exit 1
fi
read -ra flags <<<"$(pkg-config --cflags --libs floe)"
"$compiler" "$(dirname "${BASH_SOURCE[0]}")/main.c" "${flags[@]}" -o "$output"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir floe) "$output"
