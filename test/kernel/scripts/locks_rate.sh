# locks_rate serve [PROGRAM]: serve a tmpfs by version 3 over TCP until the test says stop. PROGRAM is the daemon; without it,
# Linux's own server serves.
# locks_rate measure: lock and unlock on a mount of $SERVER, and read attributes, in one thread and in 16.
if [ "$1" = serve ]; then
	mkdir -p /srv/memory
	must mount -t tmpfs -o size=100m memory /srv/memory
	: >/srv/memory/file
	if [ $# -gt 1 ]; then
		rpc_services
		mkdir /tmp/state
		"$2" serve --state-dir /tmp/state --rdma none --tcp "$ADDRESS:2049" --export /srv/memory:/srv/memory,rw,insecure,no_root_squash >"$SHARED/log" 2>&1 &
		daemon=$!
		until grep -qs "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
	else
		kernel_server /srv/memory
	fi
	event serving
	await stop
	[ -z "$daemon" ] || { kill $daemon; wait $daemon || { cat "$SHARED/log"; fail "the daemon's exit status: $?"; }; }
else
	mount_over tcp /mnt/n actimeo=0
	# Linux's server first waits for clients that may reclaim locks.
	waiting_for 120 flock -n /mnt/n/file true
	for threads in 1 16; do
		for what in lock getattr; do must "$WORKER" rate /mnt/n/file $what $threads 5; done
	done
	must umount /mnt/n
fi
