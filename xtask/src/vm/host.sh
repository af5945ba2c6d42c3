#!/bin/sh
# What iotrace says and does on hosts of every kind: `host.sh CASE`, ended with 0 where that is right. The programs are
# $IOTRACE and $KERNEL, the tests that trace.

# refused CODE WORD COMMAND...: it ends with that code, and says the word on standard error.
refused() {
    wanted=$1 word=$2
    shift 2
    "$@" 2>/run/said
    code=$?
    cat /run/said
    [ "$code" = "$wanted" ] || { echo "exit code $code instead of $wanted"; return 1; }
    grep -q "$word" /run/said || { echo "it does not say $word"; return 1; }
}

# exact DIRECTORY: every call is counted exactly in it.
exact() {
    export TMPDIR="$1"
    mkdir -p "$TMPDIR"
    "$KERNEL" --exact exact::every_call_btf_full --test-threads 1 && "$KERNEL" --exact exact::odd_files --test-threads 1
}

# patiently COMMAND...: until it succeeds.
patiently() {
    tries=60
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "$*: not within the time"; return 1; }
        sleep 1
    done
}

# attributed VERSION DIRECTORY UNIT: a process in that control group counts to that unit, on a host with that version.
attributed() {
    mkdir -p "$2"
    "$IOTRACE" daemon 2>/run/said &
    daemon=$!
    patiently grep -q 'listening on' /run/said
    sh -c "echo \$\$ >$2/cgroup.procs; exec sh /etc/host.sh write_lines" &
    writer=$!
    counted() { wget -qO- http://127.0.0.1:9748/metrics | grep "unit=\"$1\"" | grep -q 'operation="write"'; }
    patiently counted "$3"
    code=$?
    kill $writer
    cat /run/said
    "$IOTRACE" check --features | grep "control groups .*$1" || code=1
    kill $daemon && wait $daemon || code=1
    return $code
}

case "$1" in
# Filesystems other than that of all other tests, which is ext4.
xfs) grep ' /xfs xfs ' /proc/mounts && exact /xfs/tmp ;;
tmpfs) exact /dev/shm/tmp ;;
overlayfs)
    mkdir -p /dev/shm/upper /dev/shm/work /merged
    mount -t overlay -o lowerdir=/etc,upperdir=/dev/shm/upper,workdir=/dev/shm/work overlay /merged &&
        exact /merged/tmp
    ;;
# What there is one of for each CPU, and threads that move from one to another.
many_cpus)
    [ "$(nproc)" = 8 ] || { echo "$(nproc) CPUs"; exit 1; }
    "$KERNEL" --exact exact::every_call_btf_full --test-threads 1 &&
        "$KERNEL" --exact exact::sixteen_threads_on_many_files --test-threads 1
    ;;
# Whatever the kernel has, iotrace finds: there is nothing that it says it cannot tell.
every_hook)
    "$IOTRACE" record -o /scratch/tmp/hooks --block -- true 2>/run/said
    code=$?
    cat /run/said
    [ $code = 0 ] && ! grep WARN /run/said
    ;;
# Whether programs on calls can be preempted is seen, where the types say how, and is what Linux of this release does.
preemption)
    case "$(uname -r)" in
    5.*) wanted='none' ;;
    6.* | 7.[01].*) wanted='none$' ;;
    *) wanted='possible: .* missed$' ;;
    esac
    "$IOTRACE" check --features >/run/said
    grep 'preemption of programs' /run/said && grep 'preemption of programs' /run/said | grep -q "$wanted"
    ;;
# The kernel shows no type information; a copy of it does as well.
hidden_btf)
    cp /sys/kernel/btf/vmlinux /run/btf
    : >/run/empty
    mount -o bind /run/empty /sys/kernel/btf/vmlinux
    refused 1 'not kernel type information' "$IOTRACE" record -o /scratch/tmp/hidden -- true &&
        "$IOTRACE" record -o /scratch/tmp/given --btf /run/btf -- true
    code=$?
    umount /sys/kernel/btf/vmlinux
    exit $code
    ;;
# As a kernel without CONFIG_FTRACE_SYSCALLS, or a host that does not mount tracefs.
no_tracefs)
    umount /sys/kernel/tracing
    refused 1 'CONFIG_FTRACE_SYSCALLS' "$IOTRACE" record -o /scratch/tmp/none --hook tracepoint -- true &&
        "$IOTRACE" record -o /scratch/tmp/pair -- true
    code=$?
    mount -t tracefs tracefs /sys/kernel/tracing
    exit $code
    ;;
# Root may still, but not in a user namespace of its own.
unprivileged_bpf_disabled)
    echo 1 >/proc/sys/kernel/unprivileged_bpf_disabled
    "$IOTRACE" record -o /scratch/tmp/root -- true &&
        refused 77 'CAP_BPF' unshare -r "$IOTRACE" record -o /run/other -- true
    ;;
# Kernel maps are charged to the cgroup that makes them.
memory_limit)
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/small
    echo 256M >/sys/fs/cgroup/small/memory.max
    inside() { sh -c 'echo $$ >/sys/fs/cgroup/small/cgroup.procs; exec "$0" "$@"' "$@"; }
    # A million entries need more than that, the default number does not.
    refused 1 'map-entries' inside "$IOTRACE" record -o /scratch/tmp/large --map-entries 1000000 -- true &&
        inside "$IOTRACE" record -o /scratch/tmp/small -- true
    ;;
# A hybrid system: the unit stands in a hierarchy of version 1, beside that of version 2.
cgroups_of_both_versions)
    mkdir -p /run/v1
    mount -t cgroup -o none,name=systemd systemd /run/v1
    attributed 'hybrid' /run/v1/system.slice/writer.service systemd:writer.service
    code=$?
    umount /run/v1
    exit $code
    ;;
# Booted with cgroups=1: version 2 was never mounted.
cgroups_of_version_1)
    attributed 'version 1$' /sys/fs/cgroup/pids/slurm/uid_0/job_7/step_0 slurm:7
    ;;
write_lines) while sleep 1; do echo line; done >/scratch/tmp/lines ;;
# A CPU that comes while a trace runs counts as the others do.
hot_plugged_cpu)
    online=/sys/devices/system/cpu/cpu1/online
    # Linux 6.16 to 6.18 hang for good where a CPU goes while they free a map of task storage, which they do when the last
    # iotrace has ended: the one that frees may not leave its CPU, and waits for one that waits for the CPU to be gone.
    sleep 10
    echo 0 >$online
    (sleep 3; echo 1 >$online) &
    "$KERNEL" --exact exact::sixteen_threads_on_one_file --test-threads 1
    code=$?
    wait
    grep -q 1 $online || exit 1
    exit $code
    ;;
# No task storage, and no programs that do without.
too_old_and_refused)
    export IOTRACE_TEST_PROGRAMS=current
    "$IOTRACE" check >/run/said
    code=$?
    cat /run/said
    [ $code = 77 ] && grep 'MISSING' /run/said | grep -q 'task storage' &&
        refused 1 'iotrace check' "$IOTRACE" record -o /scratch/tmp/old -- true
    ;;
# Booted with lockdown=confidentiality.
lockdown)
    refused 77 lockdown "$IOTRACE" record -o /scratch/tmp/locked -- true
    "$IOTRACE" check
    [ $? = 77 ]
    ;;
*)
    echo "no case $1"
    exit 1
    ;;
esac
