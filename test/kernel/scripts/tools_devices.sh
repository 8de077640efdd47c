# tools_devices: run probe, bench and relay through RDMA devices, over rxe in this guest, against Linux's own server
# and then against the daemon.
software_rdma
ulimit -l unlimited
mkdir -p /srv/memory /tmp/state
must mount -t tmpfs -o size=200m memory /srv/memory
chmod 777 /srv/memory
head -c 8M /dev/urandom >/tmp/wanted

# tools MOUNT-PORT EXPORT [FLAG...]: run all three tools against the server that is running, bench and relay with these
# flags.
tools() {
	step "probe $2"
	"$NFSRDMAD" probe "$ADDRESS" --transport rdma --rdma-provider verbs --mount-port "$1" --timeout 20s >/tmp/probe || { cat /tmp/probe; fail "probe"; }
	cat /tmp/probe
	cp /tmp/probe /tmp/versions
	for wanted in 'RoCE, provider verbs, device rxe0' 'credits granted' 'nfs (100003)  *versions 3' "$2"; do
		grep -q "$wanted" /tmp/probe || fail "probe does not say '$wanted'"
	done
	"$NFSRDMAD" probe "$ADDRESS:4" --transport rdma --rdma-provider verbs --timeout 20s >/tmp/probe && fail "RDMA on a closed port"
	grep -q 'Nothing listens' /tmp/probe || { cat /tmp/probe; fail "probe of a closed port"; }
	for work in getattr read write create readdirplus; do
		step "bench $work"
		must timeout 120 "$NFSRDMAD" bench "$ADDRESS:$2" --transport rdma --rdma-provider verbs --mount-port "$1" --workload $work \
			--size 256K --file-size 4M --ops 50 "${@:3}"
	done
	[ -z "$(ls -A /srv/memory)" ] || fail "bench left behind: $(ls -A /srv/memory)"
	step relay
	"$NFSRDMAD" relay --listen 127.0.0.1:3049 --rdma-provider verbs --mount-port "$1" "${@:3}" "$ADDRESS" &
	local relay=$!
	waiting_for 20 listening 3049
	must nfs-cp /tmp/wanted "nfs://127.0.0.1$2/file?nfsport=3049&mountport=3049"
	must nfs-cp "nfs://127.0.0.1$2/file?nfsport=3049&mountport=3049" /tmp/back
	same /tmp/wanted /srv/memory/file
	same /tmp/wanted /tmp/back
	must kill $relay
	wait $relay || fail "relay ended with $?"
	rm /srv/memory/file /tmp/back
}

kernel_server /srv/memory
waiting_for 20 listening 20048
tools 20048 /srv/memory
rpc.nfsd 0
"$NFSRDMAD" serve --state-dir /tmp/state --rdma-provider verbs --rdma-versions 1,2 --export /srv/memory,rw,insecure,no_root_squash >/tmp/log 2>&1 &
daemon=$!
waiting_for 120 grep -q 'serving.*exports' /tmp/log
"$NFSRDMAD" doctor --state-dir /tmp/other --tcp none --rdma-provider verbs >/tmp/doctor || { cat /tmp/doctor; fail "doctor"; }
grep -q '^yes *RDMA device rxe0' /tmp/doctor || { cat /tmp/doctor; fail "doctor does not know rxe0"; }
tools 2049 /srv/memory
grep -q 'RPC-over-RDMA *versions 1, 2' /tmp/versions || fail "probe does not find both versions"
tools 2049 /srv/memory --rdma-version 2
kill $daemon; wait $daemon; equal $? 0 "the daemon's exit status"
