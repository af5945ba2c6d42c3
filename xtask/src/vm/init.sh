#!/bin/busybox sh
# The first process of a test machine: mounts what tests need, does the jobs of /etc/jobs one by one, says on the
# second serial line what became of each, and turns the machine off. The first line has everything else.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TMPDIR=/scratch/tmp RUST_BACKTRACE=0

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mkdir -p /dev/shm /dev/pts /run /tmp /scratch
mount -t devpts devpts /dev/pts
# Not on /tmp: the programs may have been built there.
for at in /dev/shm /run; do mount -t tmpfs tmpfs "$at"; done
# Once version 2 was mounted, the kernel shows it for good. The kernel gives us parameters that it does not know.
if [ "$cgroups" = 1 ]; then
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/pids
    mount -t cgroup -o pids pids /sys/fs/cgroup/pids
else
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
# Quick to become root by the tests' own doing; a tracer's limits are its own matter.
hostname vm
ip link set lo up

# A line of its own: the kernel writes its messages between the bytes of the first.
# Kernels for arm64 have a ttyS1, too, which leads nowhere.
case $(uname -m) in
    aarch64) line=/dev/ttyAMA1 ;;
    *) line=/dev/ttyS1 ;;
esac
stty -F $line raw -echo
exec 3>$line
say() { echo "$*" >&3; }

for module in /modules/*.ko*; do
    [ -e "$module" ] || continue
    case "$module" in
        *.xz) xz -dc "$module" >/run/module.ko && insmod /run/module.ko ;;
        *) insmod "$module" ;;
    esac || say "trouble cannot load $module"
done
# Which disk is which, their order does not say.
mkdir -p /xfs
for at in ext4:/scratch xfs:/xfs; do
    mount -t "${at%:*}" /dev/nvme0n1 "${at#*:}" || mount -t "${at%:*}" /dev/nvme1n1 "${at#*:}" ||
        say "trouble cannot mount ${at%:*}"
done
mkdir -p "$TMPDIR"
say "kernel $(uname -r) $(uname -v)"

# Each job: its limit in seconds, its kind, the exit code it must have, its name, its command.
while read -r limit kind wanted name command; do
    say "begin $name"
    echo "=== $name"
    start=$(date +%s)
    timeout -s KILL "$limit" $command >/run/out 2>&1
    code=$?
    seconds=$(($(date +%s) - start))
    cat /run/out
    result=failed
    [ "$code" = "$wanted" ] && result=ok
    # A name that matches no test is a success to the harness of the tests.
    [ "$kind" = test ] && ! grep -q '^test result: ok. 1 passed' /run/out && result=failed
    grep '^measured ' /run/out >&3
    if [ "$result" != ok ]; then
        say "out exit code $code after $seconds s of $limit"
        tail -n 60 /run/out | sed 's/^/out /' >&3
    fi
    say "end $seconds $result $name"
done </etc/jobs

dmesg | grep -E 'WARNING:|BUG:|Oops|Call Trace' | sed 's/^/trouble /' >&3
say finished
sync
sleep 1
poweroff -f
