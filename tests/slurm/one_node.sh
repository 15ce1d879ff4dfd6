#!/bin/sh
# A SLURM cluster of this machine alone, from Debian's packages (tested with SLURM 22.05 on Debian 12), as root:
#
#     tests/slurm/one_node.sh start FOLDER     install what is missing, start munged, slurmctld and slurmd
#     export SLURM_CONF=FOLDER/slurm.conf      then srun, sbatch, squeue and scancel speak to it; its partition is `cpu`
#     tests/slurm/one_node.sh stop FOLDER      end its jobs and what was started
#
# Everything lies in FOLDER but munge's key and socket, which are where Debian puts them.
set -eu

folder=$(mkdir -p "$2" && cd "$2" && pwd)
SLURM_CONF=$folder/slurm.conf
export SLURM_CONF

install_packages() {
    command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null && return
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends slurm-wlm munge >&2
}

write_configuration() {
    host=$(hostname -s)
    memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024 / 2))
    mkdir -p "$folder/state" "$folder/spool"
    cat >"$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ReturnToService=2
MpiDefault=none
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory
PartitionName=cpu Nodes=ALL Default=YES State=UP
END
}

wait_for() {
    tries=100
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "one_node.sh: in vain: $*" >&2; tail -n 5 "$folder"/*.log >&2; exit 1; }
        sleep 0.2
    done
}

is_idle() {
    [ "$(sinfo --noheader --format=%t | head -n 1)" = idle ]
}

start() {
    [ "$(id -u)" = 0 ] || { echo "one_node.sh: slurmctld and slurmd are started by root" >&2; exit 1; }
    install_packages
    write_configuration
    if ! munge --no-input >/dev/null 2>&1; then
        mkdir -p /run/munge && chown munge:munge /run/munge
        su -s /bin/sh munge -c /usr/sbin/munged
    fi
    wait_for munge --no-input
    slurmctld -c
    wait_for sinfo
    slurmd
    wait_for is_idle
}

stop() {
    scancel --state=PENDING --partition=cpu 2>/dev/null || true
    scancel --partition=cpu 2>/dev/null || true
    for daemon in slurmd slurmctld; do
        [ -s "$folder/$daemon.pid" ] && kill "$(cat "$folder/$daemon.pid")" || true
    done
}

case $1 in
start) start ;;
stop) stop ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
