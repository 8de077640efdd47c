# Functions that run the daemon of serve_devices in a container, as user 2049. They stand before that script.

# in_container BUNDLE: run the container in this folder. Its state and its export belong to its user.
in_container() {
	# crun asks of which kind the control groups are, before it learns that it is to use none. The user-mode kernel has
	# none.
	if [ ! -e /sys/fs/cgroup ]; then
		must mount -t tmpfs groups /sys/fs
		mkdir /sys/fs/cgroup
		must mount -t tmpfs groups /sys/fs/cgroup
	fi
	chown -R 2049:2049 /srv/work /tmp/state
	exec crun --cgroup-manager=disabled run --bundle "$1" nfs
}

# confined: print how the daemon in the container is confined; fail if it has a privilege, or a node in /dev/infiniband
# that the container does not need.
confined() {
	local pid; pid=$(pidof nfsrdmad)
	grep -E '^(Uid|Cap|NoNewPrivs|Seccomp)' /proc/$pid/status
	equal "$(awk '/^Uid/ { print $2, $3, $4, $5 }' /proc/$pid/status)" "2049 2049 2049 2049" user
	equal "$(grep -c '^Cap.*0000000000000000$' /proc/$pid/status)" 5 "empty sets of capabilities"
	equal "$(awk '/^(NoNewPrivs|Seccomp):/ { print $2 }' /proc/$pid/status | xargs)" "1 2" "no new privileges, and a filter of system calls"
	equal "$(ls /proc/$pid/root/dev/infiniband | xargs)" "rdma_cm uverbs0" nodes
	equal "$(awk '/^Max locked memory/ { print $4, $5 }' /proc/$pid/limits)" "unlimited unlimited" "locked memory"
	! touch /proc/$pid/root/usr/bin/x 2>/dev/null || fail "the container's root can be written to"
	doctor $pid
}

# doctor PID: run doctor where that process runs.
doctor() {
	nsenter -t "$1" -m -p -u --root --wd -S 2049 -G 2049 /usr/bin/nfsrdmad doctor --tcp none --rdma-provider verbs --state-dir /tmp >/tmp/doctor
	cat /tmp/doctor
	local line
	for line in '^yes *RDMA libraries' '^yes *RDMA connection manager' '^yes *locked memory *no limit' '^yes *RDMA device rxe0 *RoCE, port 1 active'; do
		grep -q "$line" /tmp/doctor || fail "doctor does not say '$line'"
	done
}
