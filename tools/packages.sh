# shellcheck shell=bash disable=SC2034 # what tools/dev uses
# The distribution's packages that `tools/dev` needs, which sources this file.

# Debian and Ubuntu packages, by the command that first needs them.
readonly apt_build=(
  build-essential pkg-config ccache
  libbenchmark-dev libcli11-dev libdnnl-dev libfabric-dev libfmt-dev libgmock-dev libgtest-dev
  libhwloc-dev libhwy-dev libsodium-dev nlohmann-json3-dev
  ocl-icd-opencl-dev # libdnnl-dev's CMake package asks for it, and only recommends it
)
readonly apt_python=(python3 python3-venv) # only where python3 can't make a virtual environment
apt_test=(abigail-tools gfortran iproute2 libclang-rt-14-dev libgloo-dev libjemalloc2 libtcmalloc-minimal4 spin)
command -v rustc >/dev/null || apt_test+=(rustc) # rustup's is not a package
readonly apt_test
readonly apt_lint=(clang-tidy-14 shellcheck) apt_fuzz=(clang-14 libclang-rt-14-dev)

has_package() { # has_package NAME: dpkg also knows, as not-installed, packages that others recommend
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# Some distributions have another LLVM than 14, or mark packages that were built for a 64-bit time_t.
name_here() { # name_here PACKAGE: what it is called in this one; the same if apt knows nothing yet
  local name
  for name in "$1" "$1t64" "${1%-14}"; do
    ! apt-cache show "$name" >/dev/null 2>&1 || break
    name=$1
  done
  printf '%s\n' "$name"
}

missing_packages() {
  local package
  for package in "$@"; do
    has_package "$package" || has_package "${package%-14}" || has_package "${package}t64" || name_here "$package"
  done
}

phase_packages() {
  local as_root=() name
  local -a names=()
  ((EUID == 0)) || as_root=(sudo -n)
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update || echo "apt-get update failed: trying what is known"
  for name in "$@"; do
    names+=("$(name_here "$name")")
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${names[@]}"
}

setup_packages() {
  local -a missing
  python3 -c 'import ensurepip, venv' 2>/dev/null || set -- "${apt_python[@]}" "$@"
  if ! command -v dpkg-query >/dev/null; then
    printf 'tools/dev: neither Debian nor Ubuntu: the counterparts of these must be installed: %s\n' "$*" >&2
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    die "packages are missing. As root, run: apt-get update && apt-get install -y ${missing[*]}"
  fi
  printf 'installing %s\n' "${missing[*]}"
  phase packages 1200 packages "${missing[@]}" || die "the packages could not be installed: ${missing[*]}"
}
