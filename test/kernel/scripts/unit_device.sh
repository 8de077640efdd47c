# Functions that run the daemon of serve_devices as the unit of systemd, which is process 1. They stand before that
# script.

# Under emulation on a busy machine, systemd may need longer for an answer than systemctl waits by default.
export SYSTEMD_BUS_TIMEOUT=5min

# When a device appears, rdma-core loads rdma_ucm by this unit. Here only the daemon's unit loads it.
must systemctl mask --runtime rdma-load-modules@rdma.service

# shown PROPERTY: print a property of the unit.
shown() { systemctl show --value --property="$1" nfsrdmad.service; }

# in_unit TREE CONFIG INSTALL START: install the unit by the commands INSTALL in TREE, with CONFIG at the end of its
# configuration, and start it by the command START. Then print its journal until SIGTERM, and stop the unit.
in_unit() {
	cd "$1"
	bash -ec "$3" || fail "the commands of docs/running.md"
	echo "$2" >>/etc/nfsrdmad/nfsrdmad.toml
	# The unit itself has to load the module.
	must modprobe -r rdma_ucm
	[ ! -e /dev/infiniband/rdma_cm ] || fail "rdma_cm is there before the unit starts"
	bash -ec "$4" || { journalctl --no-pager -u nfsrdmad; fail "$4"; }
	journalctl --follow --lines=all --output=cat --unit=nfsrdmad &
	trap 'systemctl stop nfsrdmad; kill $!; equal "$(shown Result)" success "the result of the unit"; exit 0' TERM
	wait $!
	fail "the journal ended"
}

# confined: fail unless the restrictions of the unit that concern devices hold for the daemon.
confined() {
	local pid group; pid=$(shown MainPID) group=/sys/fs/cgroup$(shown ControlGroup)
	grep -E '^(Uid|Cap|NoNewPrivs|Seccomp):' /proc/$pid/status
	equal "$(ps -o user= -p $pid)" nfsrdmad "the daemon's user"
	equal "$(awk '/^Max locked memory/ { print $4, $5 }' /proc/$pid/limits)" "unlimited unlimited" "locked memory"
	ls -l /proc/$pid/fd | grep -o '/dev/infiniband/.*' | sort -u
	equal "$(ls -l /proc/$pid/fd | grep -o '/dev/infiniband/.*' | sort -u | xargs)" "/dev/infiniband/rdma_cm /dev/infiniband/uverbs0" "open devices"
	only_devices $group /dev/infiniband/rdma_cm /dev/infiniband/uverbs0
}

# reload: make the daemon read its configuration again, with another export.
reload() {
	local pid; pid=$(shown MainPID)
	mkdir -p /srv/late
	printf '[[export]]\npath = "/srv/late"\nname = "/late"\n' >>/etc/nfsrdmad/nfsrdmad.toml
	must systemctl reload nfsrdmad
	shown StatusText | grep serving || fail "after a reload the status is $(shown StatusText)"
	equal "$(shown MainPID)" $pid "the main process after a reload"
	/usr/bin/nfsrdmad probe "$ADDRESS" --transport rdma --rdma-provider verbs --timeout 60s | grep -w /late || fail "no export /late after a reload"
}

# restart: restart the unit.
restart() {
	local pid; pid=$(shown MainPID)
	must systemctl restart nfsrdmad
	[ "$(shown MainPID)" != $pid ] || fail "the same process after a restart"
}

# watched: three minutes after the daemon's start, which is longer than WatchdogSec=, systemd hears from the daemon and
# has not ended it.
watched() {
	local start; start=$(shown ExecMainStartTimestampMonotonic)
	waiting_for 600 heard $((start + 180000000))
	equal "$(shown ExecMainStartTimestampMonotonic)" $start "the start of the daemon that the watchdog watches"
	equal "$(shown NRestarts)" 0 "restarts by systemd"
}

# heard TIME: succeed if systemd has heard from the daemon after this time, in microseconds since the boot.
heard() { [ "$(shown WatchdogTimestampMonotonic)" -gt "$1" ]; }
