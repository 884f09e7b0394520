# shellcheck shell=bash
# Shared by the scripts of this folder: `source` it after `set -euo pipefail`.
# Sets $root; everything here reports to standard error and leaves standard output alone.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# run_logged LOG COMMAND...: silent; on failure shows the end of its output.
run_logged() {
  local log="$1" status=0
  shift
  "$@" </dev/null >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    say "error: '$*' failed with status $status; all of its output: $log"
    return "$status"
  fi
}

# configure PRESET: makes build/PRESET unless it stands and is newer than the presets.
configure() {
  local preset="$1" dir="$root/build/$1"
  if [[ -f $dir/build.ninja && $dir/configured -nt $root/CMakePresets.json ]]; then
    return
  fi
  say "Configuring build/$preset"
  mkdir -p "$dir"
  # LIBRARY_PATH: some images point it at the stubs of CUDA's driver, which must not be linked.
  run_logged "$dir/configure.log" env -u LIBRARY_PATH -C "$root" cmake --preset "$preset"
  touch "$dir/configured"
}

# has_changed STAMP: true if STAMP is missing or a file of the project is newer.
has_changed() {
  [[ ! -f $1 ]] || [[ -n $(find "$root" -path "$root/build" -prune -o -path "$root/.git" -prune \
    -o -type f -newer "$1" -print -quit) ]]
}

# build PRESET TARGET: configures if needed, then lets ninja decide. Tells about it only if
# something has changed since the last time; on a terminal with ninja's progress line.
build() {
  local preset="$1" target="$2" dir="$root/build/$1"
  local stamp="$dir/built.$target" command
  configure "$preset"
  command=(env -u LIBRARY_PATH ninja -C "$dir" -j "$(nproc)" "$target")
  if has_changed "$stamp"; then
    say "Building build/$preset (the first time takes minutes)"
    if [[ -t 2 ]]; then
      "${command[@]}" </dev/null >&2
      touch "$stamp"
      return
    fi
  fi
  run_logged "$dir/build.log" "${command[@]}"
  touch "$stamp"
}

# Prints where nvcc is; fails if it is neither on PATH nor in the toolkit's usual place.
find_nvcc() {
  command -v nvcc && return
  [[ -x /usr/local/cuda/bin/nvcc ]] && echo /usr/local/cuda/bin/nvcc
}

# Sets the array mpirun_command: mpirun with the switches that this MPI needs for any number
# of ranks on one machine, as root too.
find_mpirun() {
  local version
  version="$(mpirun --version 2>&1)" || die "mpirun --version failed: $version"
  mpirun_command=(mpirun)
  case "$version" in
    *"Open MPI"*)
      mpirun_command+=(--quiet)
      if [[ $version =~ \(Open\ MPI\)\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= 5)); then
        mpirun_command+=(--map-by ":OVERSUBSCRIBE")
      else
        mpirun_command+=(--oversubscribe)
      fi
      if ((EUID == 0)); then
        mpirun_command+=(--allow-run-as-root)
      fi
      # Reading another process's memory is forbidden in most containers, and Open MPI then
      # prints an error a message. Pipes through shared memory cost us nothing measurable.
      export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
      ;;
    *HYDRA* | *MPICH* | *"Intel(R) MPI"*) ;;
    *) say "warning: unknown MPI, calling mpirun without switches: ${version%%$'\n'*}" ;;
  esac
}
