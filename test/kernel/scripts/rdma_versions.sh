# rdma_versions PROGRAM: measure versions 1 and 2 of RPC-over-RDMA in turns against one daemon: over rxe, and over the
# software RNIC. PROGRAM has the benchmarks of transport/rdma. The daemon and the tool are in this guest.
software_rdma
ulimit -l unlimited
mkdir -p /srv/memory /tmp/state
must mount -t tmpfs -o size=200m memory /srv/memory
chmod 777 /srv/memory

VERBS_ADDRESS=$ADDRESS must "$1" -test.run NONE -test.bench '^BenchmarkVersionsOverDevices$' -test.benchtime 4000x

for provider in verbs iwarp; do
	"$NFSRDMAD" serve --state-dir /tmp/state --rdma-provider $provider --rdma-versions 1,2 \
		--export /srv/memory,rw,insecure,no_root_squash,async >/tmp/log 2>&1 &
	daemon=$!
	waiting_for 120 grep -q 'serving.*exports' /tmp/log
	for work in null: getattr: read:4K write:4K readdirplus:64K; do
		size=${work#*:}
		for round in $(seq "$ROUNDS"); do
			turns='1 2'
			[ $((round % 2)) = 1 ] || turns='2 1'
			for version in $turns; do
				to=$SHARED/$provider-${work%:*}-$version-$round.json
				timeout 120 "$NFSRDMAD" bench "$ADDRESS:/srv/memory" --transport rdma --rdma-provider $provider \
					--rdma-version $version --mount-port 2049 --no-crc --workload ${work%:*} ${size:+--size $size} \
					--file-size 4M --depth 8 --duration "$DURATION" --json >"$to" || { cat "$to" /tmp/log; fail "bench $work"; }
			done
		done
	done
	kill $daemon; wait $daemon; equal $? 0 "the daemon's exit status"
done
