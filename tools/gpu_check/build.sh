# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # its variables are those of the script
# The build of scripts/gpu-check, which sources this: tools/gpu_check/sources.txt by nvcc alone.
# Reads: $root, $dir, $logs, $want_nccl, $arch (may be ""). Sets: nvcc, nvcc_version, toolkit, arch,
# cublas_library, nccl_library, program.

# find_toolkit: sets nvcc, toolkit, nvcc_version.
find_toolkit() {
  local candidate
  for candidate in "${NVCC:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/nowhere}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc; do
    if [[ -n $candidate && -x $candidate ]]; then
      nvcc="$candidate"
      toolkit="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
      nvcc_version="$("$nvcc" --version | tail -n 2 | tr '\n' ' ')"
      return
    fi
  done
  wrong_usage "no nvcc: install the CUDA Toolkit 12.4 or later, or set NVCC"
}

# wheel_folders: where Python packages keep NVIDIA's libraries, if there is a Python.
wheel_folders() {
  python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null || true
}

# find_library NAME [FOLDER...]: the path of libNAME.so or a numbered one; nothing if there is none.
find_library() {
  local name="$1" folder found
  shift
  while read -r folder; do
    [[ -n $folder && -d $folder ]] || continue
    found="$(find -L "$folder" -maxdepth 4 -path '*/stubs' -prune -o \
      -name "lib$name.so*" -type f -print 2>/dev/null | sort | head -n 1)"
    if [[ -n $found ]]; then
      printf '%s' "$found"
      return
    fi
  done < <(printf '%s\n' "$@" "$toolkit" && wheel_folders)
  ldconfig -p 2>/dev/null | sed -n "s/.*lib$name\.so.* => //p" | head -n 1
}

# find_header NAME LIBRARY: the folder of the header that goes with the library.
find_header() {
  local folder
  folder="$(dirname "$2")"
  for folder in "$folder/../include" "$folder/../../include" "$folder/../../../include" \
    "$toolkit/include" /usr/include /usr/local/include; do
    if [[ -f $folder/$1 ]]; then
      (cd "$folder" && pwd)
      return
    fi
  done
}

# find_libraries: sets cublas_library, nccl_library ("" if there is none) and `include`. NCCL's
# header comes first: the toolkit's folder may hold another one.
find_libraries() {
  local folder=""
  include=(-I"$root/tools/gpu_check/compat" -I"$root")
  nccl_library=""
  if ((want_nccl)); then nccl_library="$(find_library nccl "${NCCL_ROOT:-}")"; fi
  if [[ -n $nccl_library ]]; then folder="$(find_header nccl.h "$nccl_library")"; fi
  if [[ -z $folder ]]; then
    nccl_library=""
    folder="$root/tools/gpu_check/compat/no_nccl"
  fi
  include+=(-I"$folder")
  cublas_library="$(find_library cublasLt)"
  folder="$(find_header cublasLt.h "$cublas_library")"
  [[ -n $cublas_library && -n $folder ]] || wrong_usage "no cuBLASLt with its header beside $nvcc"
  include+=(-isystem "$folder")
}

# find_architectures: sets arch, e.g. "90".
find_architectures() {
  [[ -z $arch ]] || return 0
  arch="$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    tr -d '. ' | sort -un | tr '\n' ' ')" || true
  if [[ ! $arch =~ ^[0-9\ ]+$ ]]; then
    arch="$(timeout 20 "$toolkit/bin/__nvcc_device_query" 2>/dev/null | tr ',' '\n' |
      sort -un | tr '\n' ' ')" || true
  fi
  if [[ ! $arch =~ ^[0-9\ ]+$ ]]; then arch="80 90"; fi
  arch="${arch% }"
}

# list_sources: tools/gpu_check/sources.txt with its patterns filled in; kernels first, since they
# take longest.
list_sources() {
  local pattern found=()
  while read -r pattern; do
    [[ -n $pattern && $pattern != \#* ]] || continue
    # shellcheck disable=SC2206 # a pattern is to be expanded
    found+=("$root"/$pattern)
  done <"$root/tools/gpu_check/sources.txt"
  printf '%s\n' "${found[@]}" | grep '\.cu$'
  printf '%s\n' "${found[@]}" | grep -v '\.cu$'
}

# is_new OBJECT: it was made after its source and all headers of the project that this includes.
is_new() {
  local file
  [[ -f $1 && -f $1.d ]] || return 1
  while read -r -d ' ' file; do
    if [[ $file == "$root"/* && $file -nt $1 ]]; then return 1; fi
  done < <(tr -s '\\\n' ' ' <"$1.d")
}

compile() {
  "$nvcc" "${flags[@]}" "${include[@]}" -MMD -MF "$2.d" -c "$1" -o "$2.new" && mv "$2.new" "$2"
}

# compile_all: what has changed since the last time, on all cores; sets objects.
compile_all() {
  local source object running=0 failed=0 jobs
  jobs="$(nproc)"
  objects=()
  if [[ $(cat "$dir/flags" 2>/dev/null) != "${flags[*]} ${include[*]}" ]]; then
    rm -f "$dir"/objects/*
    echo "${flags[*]} ${include[*]}" >"$dir/flags"
  fi
  while read -r source; do
    object="${source#"$root"/}"
    object="$dir/objects/${object//\//.}.o"
    objects+=("$object")
    if is_new "$object"; then continue; fi
    if ((running == jobs)); then
      wait -n || failed=1
      running=$((running - 1))
    fi
    compile "$source" "$object" &
    running=$((running + 1))
  done < <(list_sources)
  while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
  done
  return "$failed"
}

link() {
  local library
  local libraries=()
  for library in "$cublas_library" "$nccl_library"; do
    [[ -n $library ]] || continue
    # nvcc takes libx.so.2 for a file of an unknown kind; and the loader may not search its folder.
    libraries+=(-Xlinker "$library" -Xlinker "-rpath=$(dirname "$library")")
  done
  "$nvcc" "${gencode[@]}" "${objects[@]}" "${libraries[@]}" -lpthread -lrt -o "$program"
}

# build_program: sets program; reports the step "build".
build_program() {
  local start status=0 a log="$logs/build.err"
  start="$(now_ms)"
  gencode=()
  for a in $arch; do gencode+=(-gencode "arch=compute_$a,code=sm_$a"); done
  flags=(-std=c++20 -O3 -lineinfo -Xcompiler=-ffp-contract=off "${gencode[@]}")
  program="$dir/gpu_check"
  mkdir -p "$dir/objects"
  (compile_all && link) >"$log" 2>&1 || status=$?
  local ms=$(($(now_ms) - start))
  if ((status != 0)); then
    report build failed "$ms" "$(grep -m 1 -i 'error' "$log" || last_line "$log") (all of it: $log)"
    return 1
  fi
  report build ok "$ms" "sm ${arch// /, }, ${nccl_library:+with }${nccl_library:-without NCCL}"
}
