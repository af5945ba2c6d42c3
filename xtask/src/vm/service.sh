#!/bin/bash
# What is looked at in a booted Debian with the package of iotrace installed. Each function `check_NAME` is a check, run
# in this order; what became of it is said on the second serial line, as `init.sh` says it of tests. After a check that sets
# `restart`, the machine is started again by that command, and the checks go on.

config=/etc/iotrace/iotrace.toml
drop_in=/run/systemd/system/iotrace.service.d

show() { systemctl show --property "$1" --value iotrace.service; }
main_pid() { show MainPID; }
fail() {
    echo "$*"
    return 1
}
# is WHAT EXPECTED FOUND
is() { [ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"; }
get() {
    exec 4<>/dev/tcp/127.0.0.1/9748 || return
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&4
    tr -d '\r' <&4
    exec 4<&-
}
# The sum of the samples whose name and labels have these words in them.
sum() {
    get /metrics | awk -v words="$*" '
        BEGIN { n = split(words, word, " ") }
        /^#/ { next }
        { for (i = 1; i <= n; i++) if (!index($0, word[i])) next; total += $NF }
        END { printf "%d\n", total }'
}
# What was not accounted, in words, from metrics: each reason that there was.
unaccounted() {
    awk -F '[{}" ]' '/^iotrace_unaccounted_total/ && $NF > 0 { printf "%s%s (%s) %d", sep, $3, $5, $NF; sep = ", " }'
}
# Repeats a command until it succeeds: until_ok COMMAND. Emulated on a busy machine, a start takes minutes.
until_ok() {
    local end=$((SECONDS + 600))
    until "$@" >/run/tried 2>&1; do
        [ "$SECONDS" -lt "$end" ] || fail "$*: not within the time: $(tail -n 5 /run/tried)" || return
        sleep 1
    done
}
journal_has() { journalctl --sync; journalctl --unit iotrace.service --output cat | grep -q -e "$1"; }
sum_is() {
    local expected=$1
    shift
    is "sum of $*" "$expected" "$(sum "$@")"
}
is_active() { [ "$(show ActiveState)" = active ]; }
# Whether another process than this one is the service, and ready.
is_another() {
    local pid
    pid=$(main_pid)
    [ "$pid" != 0 ] && [ "$pid" != "$1" ] && is_active
}
# Those of io_uring are not in every kernel; five are.
hooks_are_attached() { [[ $(show StatusText) =~ ^([5-9]|[1-9][0-9])\ of\ [0-9]+\ hooks\ attached ]]; }

check_systemd_started_it() {
    until_ok is_active || return
    is type notify "$(show Type)" || return
    until_ok hooks_are_attached || fail "$(show StatusText)" || return
    is user iotrace "$(ps -o user= -p "$(main_pid)")" || return
    journal_has 'listening on 127.0.0.1:9748'
}
check_it_has_its_capabilities_and_no_others() {
    # CAP_SYS_PTRACE 19, CAP_SYS_NICE 23, CAP_PERFMON 38, CAP_BPF 39
    local set
    for set in CapInh CapPrm CapEff CapBnd CapAmb; do
        is $set 000000c000880000 "$(awk -v set=$set: '$1 == set { print $2 }' "/proc/$(main_pid)/status")" || return
    done
    is NoNewPrivs 1 "$(awk '$1 == "NoNewPrivs:" { print $2 }' "/proc/$(main_pid)/status")"
}
check_the_front_has_no_capability() {
    local front set
    front=$(pgrep -P "$(main_pid)") || fail 'there is no front' || return
    is user iotrace "$(ps -o user= -p "$front")" || return
    for set in CapInh CapPrm CapEff CapAmb; do
        is $set 0000000000000000 "$(awk -v set=$set: '$1 == set { print $2 }' "/proc/$front/status")" || return
    done
    is NoNewPrivs 1 "$(awk '$1 == "NoNewPrivs:" { print $2 }' "/proc/$front/status")" || return
    is Seccomp 2 "$(awk '$1 == "Seccomp:" { print $2 }' "/proc/$front/status")" || return
    kill -KILL "$front"
    until_ok sum_is 1 iotrace_front_restarts_total || return
    is_active
}
check_it_is_scraped_and_exact() {
    SLURM_JOB_ID=4242 dd if=/dev/zero of=/var/tmp/job bs=1000 count=700 status=none
    systemd-run --quiet --wait --unit writer dd if=/dev/zero of=/var/tmp/unit bs=1000 count=300 status=none
    until_ok sum_is 700000 'iotrace_bytes_total{' 'unit="slurm:4242"' 'operation="write"' 'mountpoint="/"' || return
    until_ok sum_is 300000 'iotrace_bytes_total{' 'unit="systemd:writer.service"' 'operation="write"' 'mountpoint="/"' || return
    echo "measured not accounted, or not in full: $(get /metrics | unaccounted)"
    sum_is 0 iotrace_unaccounted_total 'kind="lost"' || return
    get /healthz | grep -q '^ok$'
}
check_a_user_has_a_command_recorded() {
    local dir
    printf '[recordings]\nsocket = "/run/iotrace/iotrace.sock"\ngroup = "*"\n' >$config
    systemctl restart iotrace.service || return
    dir=$(mktemp -d) && chown 1000:1000 "$dir" && cd "$dir" || return
    setpriv --reuid=1000 --regid=1000 --clear-groups iotrace record --output "$dir/recording" -- \
        dd if=/dev/zero of="$dir/written" bs=1000 count=120 status=none || return
    iotrace report "$dir/recording" | grep -q "$dir/written" || fail 'the file is not in the report' || return
    is 'mode of the recording' '700 1000' "$(stat -c '%a %u' "$dir/recording")"
}
check_a_reload_takes_effect_and_says_so() {
    printf '[metrics]\nmax_series = 7000\n' >$config
    systemctl reload iotrace.service || return
    until_ok sum_is 7000 iotrace_series_limit || return
    until_ok journal_has 'reloaded' || return
    is_active
}
check_a_wrong_reload_changes_nothing() {
    printf '[metrics]\nmax_serie = 7000\n' >$config
    systemctl reload iotrace.service
    until_ok journal_has "$config:2: unknown field .max_serie." || return
    sum_is 7000 iotrace_series_limit || return
    printf '[metrics]\nmax_series = 7000\n' >$config
}
check_the_watchdog_starts_it_anew() {
    local pid
    printf '[Service]\nWatchdogSec=20\nRestartSec=1\n' >$drop_in/watchdog.conf
    systemctl daemon-reload
    systemctl restart iotrace.service || return
    pid=$(main_pid)
    sleep 45
    is 'the process, which lives' "$pid" "$(main_pid)" || return
    kill -STOP "$pid"
    until_ok is_another "$pid" || return
    until_ok journal_has 'atchdog timeout'
}
check_killed_it_is_started_anew() {
    local pid
    pid=$(main_pid)
    sum iotrace_bytes_total 'unit="slurm:4242"' >/run/before
    kill -KILL "$pid"
    until_ok is_another "$pid" || return
    SLURM_JOB_ID=4243 dd if=/dev/zero of=/var/tmp/again bs=1000 count=50 status=none
    until_ok sum_is 50000 'iotrace_bytes_total{' 'unit="slurm:4243"' 'operation="write"' 'mountpoint="/"'
}
check_a_job_from_before_is_attributed() {
    mkfifo /run/tick
    SLURM_JOB_ID=4244 bash -c 'while echo x; do read -t 0.5 <>/run/tick; done >/var/tmp/lines' &
    systemctl restart iotrace.service || return
    until_ok counts_of_4244
    local result=$?
    kill %1
    return $result
}
counts_of_4244() { [ "$(sum 'iotrace_bytes_total{' 'unit="slurm:4244"' 'operation="write"')" -gt 0 ]; }
check_it_stops_cleanly() {
    systemctl stop iotrace.service || return
    is state inactive "$(show ActiveState)" || return
    is result success "$(show Result)" || return
    is 'exit status' 0 "$(show ExecMainStatus)" || return
    # The kernel has no program of it any more.
    ! get /healthz 2>/dev/null
}
check_a_wrong_configuration_is_named_in_the_journal() {
    printf '[http]\n\nlisten = "nowhere"\n' >$config
    systemctl start iotrace.service && fail 'it started' && return 1
    until_ok journal_has "$config:3: invalid socket address" || return
    systemctl stop iotrace.service
    printf '[metrics]\nmax_series = 7000\n' >$config
    systemctl reset-failed iotrace.service
}
check_without_a_capability_it_names_it() {
    printf '[Service]\nAmbientCapabilities=\nAmbientCapabilities=CAP_PERFMON\nRestart=no\n' >$drop_in/capabilities.conf
    systemctl daemon-reload
    systemctl start iotrace.service && fail 'it started' && return 1
    is 'exit status' 77 "$(show ExecMainStatus)" || return
    until_ok journal_has 'CAP_BPF' || return
    rm $drop_in/capabilities.conf
    systemctl daemon-reload
    systemctl reset-failed iotrace.service
    systemctl start iotrace.service
}
check_systemd_rates_the_unit() {
    systemd-analyze verify /usr/lib/systemd/system/iotrace.service || return
    systemd-analyze security --no-pager iotrace.service >/run/rated || return
    echo "measured systemd-analyze security: $(sed -n 's/.*Overall exposure level for iotrace.service: //p' /run/rated)" |
        tr -cd '[:alnum:][:space:].:,-' | tee /run/measured
    grep -q 'Overall exposure level for iotrace.service: [0-3]\.' /run/rated
}
# job ID BLOCKS...: a job of a user, which writes these thousands of bytes, and those after the first when told to go on.
job() {
    local id=$1 first=$2 rest=$3
    local write="dd if=/dev/zero bs=1000 status=none oflag=append conv=notrunc of=/var/tmp/jobs/$id"
    SLURM_JOB_ID=$id setpriv --reuid=1000 --regid=1000 --clear-groups bash -c "$write count=$first
        [ -z '$rest' ] || { read line </var/tmp/jobs/go; $write count=${rest:-0}; }"
}
go_on() { echo >/var/tmp/jobs/go; }
# Of a job: the sum of a number over its logs; how many logs it has; where the last one is.
logged() { iotrace jobs show "$2" | awk -F '[:,]' -v name="\"$1\"" '$1 ~ name { sum += $2 } END { printf "%d\n", sum }'; }
logs_of() { iotrace jobs show "$1" | grep -c '"directory"'; }
log_of() { iotrace jobs show "$1" | sed -n 's/.*"directory": "\(.*\)".*/\1/p' | tail -n 1; }
has_logged() { is "bytes of $1" "$2" "$(logged bytes_written "$1")"; }
# Logs of a job that are complete, and those that are not.
completeness() { iotrace jobs show "$1" | sed -n 's/.*"complete": \([a-z]*\).*/\1/p' | sort | xargs; }
has_logs() { is "completeness of $1" "$2" "$(completeness "$1")"; }
is_examined() { iotrace jobs show "$1" | grep -q '"verdict": "[a-z]'; }
says_why_logs_are_not_written() { get /status | grep -q 'job logs are not written'; }
says_nothing_of_logs() { ! says_why_logs_are_not_written; }

check_job_logs_without_a_place_name_the_drop_in() {
    printf '[metrics]\nmax_series = 7000\n[jobs]\ndirectory = "/var/log/iotrace"\nleast = "0s"\nflush = "1s"\n' >$config
    systemctl restart iotrace.service && fail 'it started' && return 1
    until_ok journal_has 'job-logs.conf' || return
    systemctl stop iotrace.service
    systemctl reset-failed iotrace.service
}
check_a_job_leaves_its_log_to_its_user() {
    install -D -m 644 /usr/share/iotrace/systemd/job-logs.conf -t /etc/systemd/system/iotrace.service.d || return
    systemctl daemon-reload
    systemctl start iotrace.service || return
    mkdir -m 777 /var/tmp/jobs && mkfifo -m 666 /var/tmp/jobs/go || return
    job 4301 100 || return
    until_ok is_examined 4301 || return
    has_logged 4301 100000 || return
    local log
    log=$(log_of 4301)
    is 'owner and mode' '1000 700' "$(stat -c '%u %a' "$log")" || return
    setpriv --reuid=1000 --regid=1000 --clear-groups iotrace report "$log" | grep -q 'writes' || fail 'no report' || return
    ! setpriv --reuid=1001 --regid=1001 --clear-groups cat "$log/meta.json" || fail 'it is not of that user alone'
}
check_a_killed_service_loses_no_flushed_log() {
    local pid
    pid=$(main_pid)
    job 4302 50 30 &
    until_ok has_logged 4302 50000 || return
    kill -KILL "$pid"
    until_ok is_another "$pid" || return
    go_on
    until_ok has_logs 4302 'false true' || return
    has_logged 4302 80000
}
check_a_full_disk_costs_logs_and_not_the_service() {
    systemctl stop iotrace.service || return
    mount -t tmpfs -o "size=8m,mode=755,uid=$(id -u iotrace),gid=$(id -g iotrace)" logs /var/log/iotrace || return
    systemctl start iotrace.service || return
    dd if=/dev/zero of=/var/log/iotrace/full bs=1000 status=none
    job 4303 40
    until_ok says_why_logs_are_not_written || return
    is_active || return
    until_ok sum_is 40000 'iotrace_bytes_total{' 'unit="slurm:4303"' 'operation="write"' || return
    rm /var/log/iotrace/full
    job 4304 40
    until_ok has_logs 4304 true || return
    has_logged 4304 40000 || return
    until_ok says_nothing_of_logs || return
    systemctl stop iotrace.service && umount /var/log/iotrace && systemctl start iotrace.service
}
check_an_upgrade_keeps_it_running_and_its_configuration() {
    local pid
    pid=$(main_pid)
    job 4305 20 30 &
    until_ok has_logged 4305 20000 || return
    dpkg --install /root/iotrace.deb /root/iotrace-daemon.deb || return
    until_ok is_another "$pid" || return
    grep -q 7000 $config || fail "the configuration was changed: $(cat $config)" || return
    go_on
    until_ok has_logs 4305 'true true' || return
    has_logged 4305 50000
}
check_a_job_runs_before_a_reboot() {
    job 4306 60 1 &
    until_ok has_logged 4306 60000 || return
    restart='systemctl reboot'
}
check_its_log_is_complete_after_the_reboot() {
    until_ok is_active || return
    has_logs 4306 true || return
    has_logged 4306 60000
}
check_a_job_runs_before_a_power_cut() {
    job 4307 70 1 &
    until_ok has_logged 4307 70000 || return
    restart='echo b >/proc/sysrq-trigger'
}
check_its_log_has_all_of_it_after_the_power_cut() {
    until_ok is_active || return
    has_logs 4307 false || return
    has_logged 4307 70000 || return
    iotrace report "$(log_of 4307)" | grep -q 'writes' || fail 'no report' || return
    rm -r /etc/systemd/system/iotrace.service.d
    printf '[metrics]\nmax_series = 7000\n' >$config
    systemctl daemon-reload
    systemctl restart iotrace.service
}
check_disabled_it_stays_so_over_an_upgrade() {
    systemctl disable --now iotrace.service || return
    dpkg --install /root/iotrace.deb /root/iotrace-daemon.deb || return
    is 'whether enabled' disabled "$(systemctl is-enabled iotrace.service)"
}
check_purged_nothing_is_left() {
    systemctl start iotrace.service || return
    dpkg --purge iotrace-daemon iotrace || return
    ! systemctl --quiet is-active iotrace.service || return
    systemctl cat iotrace.service 2>/dev/null && return 1
    local left
    left=$(ls -d /etc/iotrace /usr/share/iotrace /run/iotrace /etc/systemd/system/*/iotrace.service 2>/dev/null)
    is 'what is left' '' "$left"
}

# What systemd allows by itself is for machines that are not emulated.
mkdir -p $drop_in
printf '[Service]\nTimeoutStartSec=600\n' >$drop_in/emulated.conf
systemctl daemon-reload

exec 3>/dev/ttyS1
say() { echo "$*" >&3; }
stty -F /dev/ttyS1 raw -echo
say "kernel $(uname -r) $(uname -v), systemd $(systemctl --version | awk 'NR == 1 { print $2 }')"
mapfile -t checks < <(sed -n 's/^\(check_[a-z_]*\)() {$/\1/p' "$0")
# After a start of the machine, those that are left.
done=$(cat /root/done 2>/dev/null || echo 0)
for check in "${checks[@]:done}"; do
    done=$((done + 1))
    echo $done >/root/done
    sync /root/done
    name=${check#check_}
    say "begin $name"
    start=$SECONDS
    if $check >/run/out 2>&1; then result=ok; else result=failed; fi
    grep '^measured ' /run/out >&3
    if [ $result = failed ]; then
        { tail -n 20 /run/out; journalctl --unit iotrace.service --output cat --lines 15; } | sed 's/^/out /' >&3
    fi
    say "end $((SECONDS - start)) $result $name"
    if [ -n "$restart" ]; then
        # Until the line above has left the machine.
        sleep 3
        eval "$restart"
        sleep infinity
    fi
done
say finished
