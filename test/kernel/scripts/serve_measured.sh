# serve_measured IMAGE [PROGRAM OPTIONS...]: serve a tmpfs and the ext4 file system in a disk image over this guest's
# RDMA device, with the option $MODE (async or sync), until the test says stop. PROGRAM is the daemon; without it,
# Linux's own server serves.
image=$1; shift
mkdir -p /srv/memory
must mount -t tmpfs -o size=700m memory /srv/memory
mkdir /srv/memory/disk
module loop ext4
must mount -o loop "$image" /srv/memory/disk
if [ $# -gt 0 ]; then
	software_rdma
	ulimit -l unlimited
	mkdir /tmp/state
	"$1" serve --state-dir /tmp/state --export /srv/memory:/memory,rw,insecure,no_root_squash,$MODE \
		--export /srv/memory/disk:/disk,rw,insecure,no_root_squash,$MODE "${@:2}" >"$SHARED/log" 2>&1 &
	daemon=$!
	until grep -qs "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
else
	SYNC=$MODE kernel_server /srv/memory
	must exportfs -i -o rw,$MODE,insecure,no_root_squash,no_subtree_check,fsid=2 "*:/srv/memory/disk"
fi
event serving
await stop
if [ -n "$daemon" ]; then
	grep -E "ctxt|^(State|Threads)" /proc/$daemon/status
	kill $daemon; wait $daemon || { cat "$SHARED/log"; fail "the daemon's exit status: $?"; }
fi
