# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # its variables are those of the script
# The report of scripts/gpu-check, which sources this: a line of a table for each step, and a JSON.
# Reads: $root, $dir, $logs, $json, $budget_s, $started_ms, $built_ms, $no_device and, for the JSON,
# $arch, $nvcc_version, $nccl_library.

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# json_text TEXT: as a JSON string.
json_text() {
  local text
  text="$(printf '%s' "$1" | tr '\n\t' '  ' | tr -d '\000-\037')"
  text="${text//\\/\\\\}"
  printf '"%s"' "${text//\"/\\\"}"
}

n_ok=0 n_failed=0 n_skipped=0 steps_json=""

# report NAME STATUS MS SAYS [FIGURES-FILE] [EXPERIMENTAL]: a line of the table and an entry of the
# JSON.
report() {
  local name="$1" status="$2" ms="$3" says="$4" figures="${5:-}" experimental="${6:-0}" entry
  entry="{\"name\":$(json_text "$name"),\"status\":\"$status\""
  entry+=",\"seconds\":$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
  entry+=",\"says\":$(json_text "$says")"
  if ((experimental)); then entry+=",\"experimental\":true"; fi
  if [[ -n $figures && -s $figures ]]; then entry+=",\"figures\":$(<"$figures")"; fi
  steps_json+="${steps_json:+,$'\n'    }$entry}"
  case "$status" in
    ok) n_ok=$((n_ok + 1)) ;;
    skipped) n_skipped=$((n_skipped + 1)) ;;
    failed) if ((!experimental)); then n_failed=$((n_failed + 1)); fi ;;
  esac
  if ((experimental)); then says="experimental: $says"; fi
  printf '%-36s %-7s %4d.%d s  %s\n' "$name" "$status" $((ms / 1000)) $((ms % 1000 / 100)) \
    "${says:0:160}"
}

skip() { report "$1" skipped 0 "$2"; }

# last_line FILE...: the last line that is not empty of the first file that has one.
last_line() {
  local file line
  for file in "$@"; do
    line="$(grep -v '^[[:space:]]*$' "$file" 2>/dev/null | tail -n 1)" || true
    if [[ -n $line ]]; then
      printf '%s' "${line:0:400}"
      return
    fi
  done
}

# step [-e] NAME LIMIT_S COMMAND...: runs the command and reports what became of it: 0 is ok, 77
# skipped. `{figures}` in the command is the file for its figures. -e: experimental.
step() {
  local experimental=0 name limit left start status=0 out err figures argument
  local command=()
  if [[ $1 == -e ]]; then experimental=1 && shift; fi
  name="$1" limit="$2"
  shift 2
  out="$logs/${name//[^a-zA-Z0-9]/_}.out" err="${out%.out}.err" figures="${out%.out}.json"
  for argument in "$@"; do command+=("${argument//\{figures\}/$figures}"); done
  start="$(now_ms)"
  left=$((budget_s - (start - built_ms) / 1000))
  if ((left <= 0)); then
    report "$name" failed 0 "not run: the $budget_s s of --budget were over" "" "$experimental"
    return
  fi
  if ((limit > left)); then limit="$left"; fi
  rm -f "$figures"
  timeout --kill-after=5 "$limit" "${command[@]}" >"$out" 2>"$err" </dev/null || status=$?
  local ms=$(($(now_ms) - start)) says
  case "$status" in
    0) report "$name" ok "$ms" "$(last_line "$out")" "$figures" "$experimental" ;;
    77) report "$name" skipped "$ms" "$(last_line "$out" "$err")" "" "$experimental" ;;
    124 | 137) report "$name" failed "$ms" "its time limit of $limit s passed" "" "$experimental" ;;
    *)
      says="$(last_line "$err" "$out")"
      report "$name" failed "$ms" "exit status $status: $says (all of it: $err)" "$figures" \
        "$experimental"
      ;;
  esac
}

# The exit status, once the JSON is written.
finish() {
  local status=0 seconds=$((($(now_ms) - started_ms) / 1000))
  if ((n_failed > 0)); then
    status=1
  elif ((no_device)); then
    status=77
  fi
  {
    printf '{\n  "schema": "shardlm gpu-check 1",\n'
    printf '  "%s": %s,\n' \
      time "$(json_text "$(date -u +%Y-%m-%dT%H:%M:%SZ)")" \
      commit "$(json_text "$(commit)")" \
      host "$(json_text "$(uname -srm)")" \
      driver "$(json_text "$(driver)")" \
      nvcc "$(json_text "$nvcc_version")" \
      architectures "$(json_text "$arch")" \
      nccl "$(json_text "$nccl_library")"
    printf '  "seconds": %d,\n  "ok": %d,\n  "failed": %d,\n  "skipped": %d,\n' \
      "$seconds" "$n_ok" "$n_failed" "$n_skipped"
    printf '  "steps": [\n    %s\n  ]\n}\n' "$steps_json"
  } >"$json" || status=1
  say "$n_ok ok, $n_failed failed, $n_skipped skipped in $seconds s; all figures: $json"
  exit "$status"
}

commit() {
  local id
  id="$(git -C "$root" rev-parse HEAD 2>/dev/null)" || return 0
  if [[ -n $(git -C "$root" status --porcelain 2>/dev/null) ]]; then id+=" with changes"; fi
  printf '%s' "$id"
}

# ask_smi FIELD: of the first GPU; nothing without nvidia-smi.
ask_smi() {
  timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 || true
}
driver() { ask_smi driver_version; }
