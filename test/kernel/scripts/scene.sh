# scene: make the same scene of three clients at Linux's own server, which runs in this guest, and at the daemon: opens,
# locks, and a client that waits for a lock. Leave what /proc/fs/nfsd/clients says of it in the folder knfsd.
mkdir -p /srv/memory
must mount -t tmpfs -o size=50m memory /srv/memory
chmod 777 /srv/memory
# With delegations, a client opens and locks without the server.
echo 0 >/proc/sys/fs/leases-enable
kernel_server /srv/memory

# scene DIR SERVER EXPORT: mount with each version of NFSv4 below DIR, and leave files open and locked there.
scene() {
	local dir=$1 version
	for version in 4.0 4.1 4.2; do
		SERVER=$2 EXPORT=$3 mount_over tcp/$version "$dir/$version"
	done
	for file in read write both part; do echo content >"$dir/4.1/$file" || fail "making $file"; done
	exec {fd}<"$dir/4.0/read"; flock -s $fd || fail "a shared lock of the whole file"
	exec {fd}>>"$dir/4.0/write"
	exec {fd}<>"$dir/4.1/both"; flock -x $fd || fail "an exclusive lock of the whole file"
	held+=($fd)
	"$WORKER" range "$dir/4.2/part" 10 10 granted "locked-${dir##*/}" "$SHARED/end" &
	flock -x "$dir/4.2/both" true &
	others+=($!)
}
others=() held=()
scene /mnt/daemon "$SERVER" /work
scene /mnt/knfsd "$ADDRESS" /
# told: copy what the kernel tells, and succeed if the scene is complete: the waiter is seen by its open alone, and for a
# moment, while its request is refused, by a lock.
told() {
	local client
	rm -rf "$SHARED/knfsd"
	for client in /proc/fs/nfsd/clients/*; do
		mkdir -p "$SHARED/knfsd/${client##*/}"
		for file in info states; do cat "$client/$file" >"$SHARED/knfsd/${client##*/}/$file"; done
	done
	[ "$(cat "$SHARED"/knfsd/*/states | grep -c 'type: open')" = 5 ] && [ "$(cat "$SHARED"/knfsd/*/states | grep -c 'type: lock')" = 3 ]
}
waiting_for 60 told
event settled
await compared
touch "$SHARED/end"
# The processes that wait have the descriptors too, so that a close alone gives no lock up.
for fd in "${held[@]}"; do flock -u $fd || fail "giving a lock up"; done
wait "${others[@]}"
for fd in /proc/self/fd/*; do
	case $(readlink "$fd") in /mnt/*) eval "exec ${fd##*/}>&-";; esac
done
for dir in /mnt/daemon /mnt/knfsd; do
	for version in 4.0 4.1 4.2; do must umount $dir/$version; done
done
