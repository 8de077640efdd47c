# relay SIZE: run probe, bench and relay against Linux's own server in this guest, over siw, with a file of SIZE MiB.
mkdir -p /srv/memory
must mount -t tmpfs -o size=900m memory /srv/memory
chmod 777 /srv/memory
kernel_server /srv/memory
waiting_for 20 listening 20048
greet "$ADDRESS"

# knfsd may lose the first message of a connection that siw has just made, so try several times.
step probe
for try in 1 2 3 4 5; do
	"$NFSRDMAD" probe "$ADDRESS" --transport rdma --mount-port 20048 --timeout 20s >/tmp/probe && break
	cat /tmp/probe
done
cat /tmp/probe
for wanted in 'MPA ' 'credits granted' 'private data' '^  nfs (100003)  *versions 3' '/srv/memory'; do
	grep -q "$wanted" /tmp/probe || fail "probe does not say '$wanted'"
done
must "$NFSRDMAD" probe "$ADDRESS" --transport tcp --mount-port 20048 --timeout 20s >/tmp/probe
# For each fault, probe prints a sentence that names it.
"$NFSRDMAD" probe "$ADDRESS:2049" --transport rdma --timeout 20s >/tmp/probe && fail "RDMA on the port of TCP"
grep -q 'does not speak iWARP' /tmp/probe || { cat /tmp/probe; fail "probe of a TCP port"; }
"$NFSRDMAD" probe "$ADDRESS:4" --transport rdma --timeout 20s >/tmp/probe && fail "RDMA on a closed port"
grep -q 'Nothing listens' /tmp/probe || { cat /tmp/probe; fail "probe of a closed port"; }

for work in null getattr read randread write randwrite create readdirplus; do
	for size in 4K 1M; do
		step "bench $work $size"
		for try in 1 2 3; do
			timeout 120 "$NFSRDMAD" bench "$ADDRESS:/srv/memory" --transport rdma --mount-port 20048 --workload $work \
				--size $size --file-size 8M --ops 100 && break
			[ $try -lt 3 ] || fail "bench $work $size"
		done
	done
done
[ -z "$(ls -A /srv/memory)" ] || fail "bench left behind: $(ls -A /srv/memory)"

# The tools of other projects below also use names of 255 bytes and listings that need Reply chunks.
step relay
kill "$(pidof rpcbind)"
waiting_for 10 sh -c '! pidof rpcbind'
"$NFSRDMAD" relay --listen 127.0.0.1:3049 --rpcbind-listen 127.0.0.1:111 --mount-port 20048 --verbose "$ADDRESS" &
relay=$!
waiting_for 20 listening 3049
head -c "${1}M" /dev/urandom >/tmp/wanted
step libnfs
name=$(printf 'n%.0s' $(seq 255))
must nfs-cp /tmp/wanted nfs://127.0.0.1/srv/memory/$name
same /tmp/wanted /srv/memory/$name
must nfs-cp nfs://127.0.0.1/srv/memory/$name /tmp/back
same /tmp/wanted /tmp/back
nfs-ls nfs://127.0.0.1/srv/memory | grep -q "$name" || fail "nfs-ls does not list the name"
rm /srv/memory/$name /tmp/back
step go-nfs-client
must "$GONFSCLIENT" 127.0.0.1 /srv/memory /tmp/wanted
must kill $relay
wait $relay || fail "relay ended with $?"
echo "probe, bench and relay over siw; $1 MiB there and back by libnfs and go-nfs-client"
