# shellcheck shell=bash
# Inside the namespaces of scripts/netns-cluster, as their process 1: makes the hosts and the links,
# runs mpirun, cuts. This network namespace is the switch between the hosts; a host is a process
# that sleeps in namespaces of its own, and what runs on the host enters those.
#
#   inside.sh N MPIRUN_OPTION{N} COMMAND...      and the variables CLUSTER_*
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

cannot() {
  say "skipped: $*"
  exit 77
}

mpirun_options=("${@:2:$1}")
shift "$(($1 + 1))"
read -ra ranks <<<"$CLUSTER_RANKS"
hosts=${#ranks[@]}
subnet=10.213.77
device=cluster0 # Open MPI leaves out interfaces whose names begin with "vir"

address() { printf '%s.%d' "$subnet" "$(($1 + 1))"; }
in_net_of() { nsenter --target "${pids[$1]}" --net "${@:2}"; }

# Memory file systems of our own: nothing is left on the machine's, whatever ends us.
mount --make-rprivate /
mount -t tmpfs -o mode=1777 cluster /dev/shm
state=/dev/shm/cluster
mkdir -p "$state/tmp"
chmod 1777 "$state/tmp"
export TMPDIR="$state/tmp"

# ---- hosts ----

# The cores of host h, as taskset wants them: its share, if there are enough.
cores_of() {
  local all=() part
  for part in $(taskset -cp $$ | sed 's/.*: //; s/,/ /g'); do
    mapfile -t -O "${#all[@]}" all < <(seq "${part%-*}" "${part#*-}")
  done
  local n=${#all[@]} first=0 last
  last=$n
  if ((CLUSTER_SHARE_CORES == 0 && n >= hosts)); then
    first=$(($1 * n / hosts))
    last=$((($1 + 1) * n / hosts))
  fi
  local IFS=,
  printf '%s' "${all[*]:first:last-first}"
}

make_hosts() {
  local h
  { echo "127.0.0.1 localhost" && for ((h = 0; h < hosts; ++h)); do
    echo "$(address "$h") node$h"
  done; } >"$state/hosts"
  mount --bind "$state/hosts" /etc/hosts
  for ((h = 0; h < hosts; ++h)); do
    mkdir -p "/dev/shm/of_$h/cluster"
    # shellcheck disable=SC2016 # the inner shell expands
    unshare --mount --net --uts --ipc sh -euc '
      hostname "node$1"
      mount --bind "$2" "/dev/shm/of_$1/cluster"
      mount --rbind "/dev/shm/of_$1" /dev/shm
      ip link set lo up
      # No slow start after a pause: between two tokens the links are idle. Reno, which every
      # namespace may use: what the machine has chosen may pace, and is then no plain link.
      echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle
      echo reno >/proc/sys/net/ipv4/tcp_congestion_control
      echo "$3" >/proc/sys/net/ipv4/tcp_retries2
      touch "$2/up.$1"
      exec sleep infinity' sh "$h" "$state" "$CLUSTER_TCP_RETRIES" </dev/null >&2 &
    pids[h]=$!
    cores_of "$h" >"$state/cores.$(address "$h")"
    echo "${pids[h]}" >"$state/pid.$(address "$h")"
  done
  for ((h = 0; h < hosts; ++h)); do
    while [[ ! -e $state/up.$h ]]; do
      kill -0 "${pids[h]}" 2>/dev/null || cannot "host $h could not be made (see above)"
      sleep 0.01
    done
  done
  cat >"$state/on" <<EOA
#!/bin/sh
# on HOST WORD...: what ssh does for mpirun, the words being a shell's.
host=\$1
shift
exec taskset -c "\$(cat $state/cores.\$host)" nsenter --target "\$(cat $state/pid.\$host)" \\
  --mount --net --uts --ipc sh -c "\$*"
EOA
  chmod +x "$state/on"
}

# ---- links ----

kernel_has() {
  local found=0
  ip link add probe0 type veth peer name probe1 2>/dev/null || return 1
  tc qdisc add dev probe0 root "$@" 2>/dev/null || found=1
  ip link del probe0
  return "$found"
}

choose_link() {
  link="$CLUSTER_LINK"
  if [[ $link == auto ]]; then
    if kernel_has netem delay 1us; then
      link=netem
    elif [[ -r /dev/net/tun && -w /dev/net/tun ]]; then
      link=relay
    else
      cannot "no delayed links: the kernel has no sch_netem, and there is no /dev/net/tun for" \
        "the relay (docker run --device /dev/net/tun); --link tbf or plain has no delay"
    fi
  fi
  case "$link" in
    netem) kernel_has netem delay 1us || cannot "--link netem: the kernel has no sch_netem" ;;
    tbf)
      kernel_has tbf rate 1gbit burst 256kb latency 50ms ||
        cannot "--link tbf: the kernel has no sch_tbf"
      ;;
    relay) [[ -r /dev/net/tun && -w /dev/net/tun ]] || cannot "--link relay: no /dev/net/tun" ;;
  esac
}

start_relay() {
  local h spaces=() first=()
  for ((h = 0; h < hosts; ++h)); do spaces+=("/proc/${pids[h]}/ns/net"); done
  # Before the ranks that spin, if this user may ask for that.
  if chrt -f 50 true 2>/dev/null; then first=(chrt -f 50); fi
  mkfifo "$state/commands"
  exec 7<>"$state/commands"
  "${first[@]}" "$CLUSTER_RELAY" "$device" "$CLUSTER_MTU" "$CLUSTER_DELAY_US" \
    "$CLUSTER_RATE_MBIT" "${spaces[@]}" <"$state/commands" >"$state/relay" 7>&- &
  local relay=$!
  until grep -qs ready "$state/relay"; do
    kill -0 "$relay" 2>/dev/null || cannot "the relay did not start (see above)"
    sleep 0.01
  done
}

make_links() {
  local h shape=()
  if [[ $link == relay ]]; then
    start_relay
  else
    ip link add switch type bridge
    ip link set switch mtu "$CLUSTER_MTU" up
    for ((h = 0; h < hosts; ++h)); do
      ip link add "port$h" mtu "$CLUSTER_MTU" type veth \
        peer name "$device" mtu "$CLUSTER_MTU" netns "${pids[h]}"
      ip link set "port$h" master switch up
    done
  fi
  local rate=()
  [[ $CLUSTER_RATE_MBIT == 0 ]] || rate=(rate "${CLUSTER_RATE_MBIT}mbit")
  case "$link" in
    # Of what leaves a host: a way there and back has the delay twice.
    netem) shape=(netem delay "${CLUSTER_DELAY_US}us" "${rate[@]}" limit 100000) ;;
    tbf) ((${#rate[@]} == 0)) || shape=(tbf "${rate[@]}" burst 256kb latency 50ms) ;;
  esac
  for ((h = 0; h < hosts; ++h)); do
    in_net_of "$h" ip addr add "$(address "$h")/24" dev "$device"
    in_net_of "$h" ip link set "$device" mtu "$CLUSTER_MTU" txqueuelen 1000 up
    ((${#shape[@]} == 0)) || in_net_of "$h" tc qdisc add dev "$device" root "${shape[@]}"
  done
}

set_link() { # cut|heal HOST
  if [[ $link == relay ]]; then
    echo "$1 $2" >&7
  elif [[ $1 == cut ]]; then
    ip link set "port$2" nomaster
  else
    ip link set "port$2" master switch
  fi
}

cut_in_time() {
  local host="${CLUSTER_CUT%%:*}" when="${CLUSTER_CUT#*:}"
  while [[ $when == output+* && ! -e $state/output ]]; do sleep 0.02; done
  sleep "${when#output+}"
  set_link cut "$host"
  say "emulated cluster: the link of node$host is cut"
  [[ -n $CLUSTER_HEAL_AFTER ]] || return 0
  sleep "$CLUSTER_HEAL_AFTER"
  set_link heal "$host"
  say "emulated cluster: the link of node$host is whole again"
}

# ---- mpirun ----

# Sets `launch`. Addresses, not names: mpirun takes a host for itself by its name. The networks by
# subnet, always. Ranks of one host over shared memory, without reading each other's memory, which
# containers forbid; other transports would find a way round the link. Keepalive: mpirun and its
# daemons would otherwise notice only after minutes that a silent host is gone.
make_command() {
  local h list=() total=0 delayed=(--mca pml ob1 --mca btl_tcp_if_include "$subnet.0/24")
  for ((h = 0; h < hosts; ++h)); do
    list+=("$(address "$h"):${ranks[h]}")
    total=$((total + ranks[h]))
  done
  launch=(mpirun --allow-run-as-root --host "$(IFS=,; echo "${list[*]}")" -np "$total"
    --bind-to none "${delayed[@]}" --mca mpi_yield_when_idle 1)
  if ((CLUSTER_MPI_MAJOR >= 5)); then
    launch+=(--map-by "slot:OVERSUBSCRIBE" --mca btl "self,sm,tcp"
      --mca btl_sm_single_copy_mechanism none --prtemca plm ssh --prtemca plm_ssh_agent "$state/on"
      --prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_if_include "$subnet.0/24")
  else
    launch+=(--map-by slot --oversubscribe --mca btl "self,vader,tcp"
      --mca btl_vader_single_copy_mechanism none --mca plm rsh --mca plm_rsh_agent "$state/on"
      --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include "$subnet.0/24"
      --mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 2
      --mca oob_tcp_keepalive_probes 5)
  fi
  launch+=("${mpirun_options[@]}" "$@")
}

describe_link() {
  local limit="${CLUSTER_RATE_MBIT} Mbit/s a host"
  [[ $CLUSTER_RATE_MBIT != 0 ]] || limit="no limit of the rate"
  case "$link" in
    netem | relay) echo "$link, $CLUSTER_DELAY_US us one way, $limit" ;;
    tbf) echo "tbf, no delay, $limit" ;;
    plain) echo "plain, no delay, no limit of the rate" ;;
  esac
}

run_job() {
  local status=0 copier=""
  if [[ $CLUSTER_CUT == *output* ]]; then
    mkfifo "$state/out"
    { head -c 1 && touch "$state/output" && exec cat; } <"$state/out" &
    copier=$!
    exec 8>"$state/out"
  else
    exec 8>&1
  fi
  # shellcheck disable=SC2016 # the inner shell expands
  taskset -c "$(cat "$state/cores.$(address 0)")" nsenter --target "${pids[0]}" \
    --mount --net --uts --ipc sh -c 'cd "$1" && shift && exec "$@"' sh "$PWD" "${launch[@]}" \
    <&0 >&8 7>&- 8>&- &
  job=$!
  exec 8>&-
  trap 'kill -TERM "$job" 2>/dev/null; { sleep 10; kill -KILL "$job"; } 2>/dev/null &' TERM INT HUP
  if [[ -n $CLUSTER_CUT ]]; then cut_in_time </dev/null & fi
  wait "$job" || status=$?
  while ((status > 128)) && kill -0 "$job" 2>/dev/null; do # a signal ended the waiting only
    status=0
    wait "$job" || status=$?
  done
  [[ -z $copier ]] || wait "$copier" || true
  exit "$status"
}

pids=()
make_hosts
choose_link
make_links
make_command "$@"
SHARDLM_EMULATED="$hosts hosts on one machine, $(describe_link)"
export SHARDLM_EMULATED
say "emulated cluster: $hosts hosts with ${ranks[*]} ranks on one machine; link: $(describe_link)," \
  "MTU $CLUSTER_MTU; all times are emulated"
run_job
