# shellcheck shell=bash
# Sourced by scripts/setup, quickstart, test and hosts: the project's folder, messages, and phases with their times.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# CMake reads the same variable; there a relative path would mean another folder.
if [[ -n ${DTRAIN_CACHE:-} ]]; then
  DTRAIN_CACHE=$(realpath -m -- "$DTRAIN_CACHE")
  export DTRAIN_CACHE
else
  unset DTRAIN_CACHE
fi

# say TEXT…: prints one line on stderr, so that stdout has only results.
say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# die CODE TEXT…: prints the last line and ends with the exit code (docs/errors.md).
die() {
  local code=$1
  shift
  say "error: $*"
  exit "$code"
}

phase_times=()

# phase NAME COMMAND…: runs the command with its output on stderr and notes how long it took; ends the script with
# the command's code if it fails.
phase() {
  local name=$1 started=$SECONDS
  shift
  say "$name …"
  local code=0
  "$@" >&2 || code=$?
  ((code == 0)) || die "$code" "$name failed with code $code; the reason stands above"
  phase_times+=("$name $((SECONDS - started)) s")
}

# build TARGET: configures the release preset and builds one target.
build() {
  cd "$top" || exit
  phase configure cmake --preset release
  phase build cmake --build --preset release --target "$1" --parallel "$(nproc)"
}

# report_phases: prints "set-up 0 s, configure 3 s, build 70 s (2 cores)".
report_phases() {
  local line
  line=$(printf ', %s' "${phase_times[@]}")
  say "${line#, } ($(nproc) cores)"
}
