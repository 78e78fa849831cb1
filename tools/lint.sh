# shellcheck shell=bash
# The checks of `tools/dev lint`, which sources this file.

sources() { # sources PATTERN...: the project's files whose paths match one; needs no git
  local -a names=()
  local pattern
  for pattern in "$@"; do
    names+=(-o -path "./$pattern")
  done
  find . -type d \( -name .git -o -name .venv -o -name 'build*' -o -name '*cache*' -o -name '*.egg-info' \) -prune \
    -o -type f \( "${names[@]:1}" \) -print | sort
}

# Sets cpp, python_files, cmake and shell.
list_files() {
  mapfile -t cpp < <(sources '*.c' '*.cpp' '*.h')
  mapfile -t python_files < <(sources '*.py')
  mapfile -t cmake < <(sources '*CMakeLists.txt' '*.cmake' '*.cmake.in')
  mapfile -t shell < <(sources '*.sh' tools/dev .ci/run)
}

fix_formats() {
  list_files
  clang-format -i "${cpp[@]}"
  gersemi --in-place "${cmake[@]}"
  ruff format -q "${python_files[@]}"
  ruff check -q --fix-only "${python_files[@]}"
}

check_formats() {
  list_files
  check clang-format clang-format --dry-run -Werror "${cpp[@]}"
  check gersemi gersemi --check --diff "${cmake[@]}"
  check 'ruff format' ruff format --check "${python_files[@]}"
  check ruff ruff check "${python_files[@]}"
  check shellcheck shellcheck "${shell[@]}"
}

long_files() { # the public header is one file, however long: its users search it
  sources '*.c' '*.cpp' '*.h' '*.py' '*.sh' tools/dev | grep -v /include/floe/floe.h | xargs -r wc -l |
    awk '$2 != "total" && $1 > 400 { print $2 ": " $1 " lines: split it, a file has one subject"; bad = 1 }
         END { exit bad }'
}

tidy() {
  local tool
  # Without what Clang takes for an error, not for a warning, and each file with no more than its own includes.
  mkdir -p build/tidy
  sed -E 's/ (-mmem(cpy|set)-strategy=|-include )[^ "]*//g' build/compile_commands.json >build/tidy/compile_commands.json
  tool=$(command -v clang-tidy-14 || command -v clang-tidy)
  sources 'src/*.cpp' 'tools/*.cpp' 'plugins/gloo/*.cpp' | grep -Ev "/peer_(mpi|oneccl).cpp" | # for which there may be no MPI
    xargs -r -P "$(nproc)" -n 1 "$tool" -p build/tidy --quiet --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument
}

# check NAME COMMAND...: all checks run, so that one run names everything there is to mend.
check() {
  local start=$SECONDS
  if "${@:2}"; then
    printf 'ok      %s, %d s\n' "$1" $((SECONDS - start))
  else
    printf 'FAILED  %s\n' "$1"
    failures=$((failures + 1))
  fi
}

check_texts() {
  local -a files
  check_formats
  check 'length of files' long_files
  mapfile -t files < <(sources '*')
  check codespell codespell "${files[@]}"
}

phase_texts() {
  check_texts
  ((failures == 0))
}

phase_lint() {
  check_texts
  check clang-tidy tidy
  ((failures == 0))
}
