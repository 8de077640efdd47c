# Functions that run the daemon of serve_devices in a container, as user 2049. They stand before that script.

# in_container COMMANDS: run the commands of docs/containers.md, which start the container "nfs" with the directory
# ./data. Then print its log until SIGTERM, and stop it. The container's device is that of this guest.
in_container() {
	must mount -t cgroup2 groups /sys/fs/cgroup
	mkdir /srv/data
	must mount --bind /srv/work /srv/data
	chown -R 2049:2049 /srv/data
	cd /srv
	must modprobe -r rdma_ucm # The first command loads it.
	bash -ec "$1" || fail "the commands of docs/containers.md"
	podman logs --follow nfs 2>&1 &
	trap 'podman stop -t 35 nfs; kill $!; equal "$(shown State.ExitCode)" 0 "the exit status of the container"; exit 0' TERM
	wait $!
	fail "the log ended"
}

# shown PROPERTY: print a property of the container.
shown() { podman inspect --format "{{.$1}}" nfs; }

# confined: print how the daemon in the container is confined; fail if it has a privilege, or a node in /dev/infiniband
# that the container does not need, or may open other devices.
confined() {
	local pid group node; pid=$(shown State.Pid)
	group=/sys/fs/cgroup$(cut -d: -f3 /proc/$pid/cgroup)
	grep -E '^(Uid|Cap|NoNewPrivs|Seccomp):' /proc/$pid/status
	equal "$(awk '/^Uid/ { print $2, $3, $4, $5 }' /proc/$pid/status)" "2049 2049 2049 2049" user
	equal "$(grep -c '^Cap.*0000000000000000$' /proc/$pid/status)" 5 "empty sets of capabilities"
	equal "$(awk '/^(NoNewPrivs|Seccomp):/ { print $2 }' /proc/$pid/status | xargs)" "1 2" "no new privileges, and a filter of system calls"
	equal "$(ls /proc/$pid/root/dev/infiniband | xargs)" "rdma_cm uverbs0" nodes
	equal "$(awk '/^Max locked memory/ { print $4, $5 }' /proc/$pid/limits)" "unlimited unlimited" "locked memory"
	! touch /proc/$pid/root/usr/bin/x 2>/dev/null || fail "the container's root can be written to"
	only_devices "$group" /dev/infiniband/rdma_cm /dev/infiniband/uverbs0
	podman exec nfs /usr/bin/nfsrdmad doctor --tcp none --rdma-provider verbs --state-dir /tmp >/tmp/doctor
	cat /tmp/doctor
	local line
	for line in '^yes *RDMA libraries' '^yes *RDMA connection manager' '^yes *locked memory *no limit' '^yes *RDMA device rxe0 *RoCE, port 1 active'; do
		grep -q "$line" /tmp/doctor || fail "doctor does not say '$line'"
	done
}
