# What every script in a guest can call. The lab sets: KERNEL, ADDRESS (the guest's), SERVER (this machine's, where no
# test names another), NIC (its network interface), SHARED (a folder that the test sees too).

# step TEXT: say how far the script has come, with the seconds since boot.
step() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }

# fail TEXT: end the script, as failed. Works in subshells that the script is the outermost of.
fail() { echo "FAIL: $*"; exit 1; }

# must COMMAND...: the command, or the end.
must() { "$@" || fail "$* (status $?)"; }

# event NAME: the test waits for it with Guest.Await.
event() { echo "::event $1"; }

# await NAME: until the test says Guest.Signal.
await() { until [ -e "$SHARED/signal.$1" ]; do sleep 0.1; done; }

# same FILE FILE: their bytes are the same.
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

# equal GOT WANTED TEXT
equal() { [ "$1" = "$2" ] || fail "$3: got '$1', wanted '$2'"; }

# module NAME...: a user-mode kernel has all of them built in.
module() { [ "$KERNEL" = uml ] || modprobe -a "$@" || fail "no module $*"; }

# software_rdma: siw on the guest's network interface.
software_rdma() {
	[ -e /sys/class/infiniband/siw0 ] && return
	module siw ib_uverbs rdma_ucm rpcrdma
	must rdma link add siw0 type siw netdev "$NIC"
}

# greet ADDRESS: a datagram to the discard port, so that the neighbour table knows the address. rdma_cm would wait five
# seconds for an address that it does not find there.
greet() { { echo >"/dev/udp/$1/9"; } 2>/dev/null; local i; for i in 1 2 3 4 5 6 7 8 9 10; do ip neigh show "$1" | grep -q lladdr && return; sleep 0.05; done; }

# mount_over rdma|tcp DIR [OPTIONS]: the server's export, over NFSv3, by the options that the product prints.
mount_over() {
	local options="vers=3,proto=$1,nolock,mountport=${MOUNT_PORT:-2049},mountproto=tcp"
	case $1 in
		rdma) software_rdma; options+=",port=20049";;
		tcp) module nfsv3; options+=",port=2049";;
	esac
	greet "$SERVER"
	mkdir -p "$2"
	must mount -t nfs -o "$options${3:+,$3}" "$SERVER:$EXPORT" "$2"
}

# again rdma|tcp DIR [OPTIONS]: leave the mount and take it anew, so that what is read comes from the server.
again() { must umount "$2"; mount_over "$@"; }

# waiting_for SECONDS COMMAND...: until the command succeeds.
waiting_for() {
	local seconds=$1 end=$((SECONDS + $1)); shift
	until "$@"; do [ $SECONDS -lt $end ] || fail "not within $seconds s: $*"; sleep 0.1; done
}

# listening PORT: this guest has a TCP listener there.
listening() { grep -qi ":$(printf %04x "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# rpc_services: rpcbind and the folders that the kernel's server keeps its state in.
rpc_services() {
	mountpoint -q /var/lib/nfs && return
	mount -t tmpfs memory /var/lib/nfs
	mkdir -p /var/lib/nfs/{rpc_pipefs,v4recovery,sm,sm.bak}
	touch /var/lib/nfs/{etab,rmtab,state}
	module sunrpc
	mount -t rpc_pipefs pipes /var/lib/nfs/rpc_pipefs
	rpcbind -w
}

# kernel_server DIR: Linux's own server, as a peer: DIR on TCP 2049 and RDMA 20049, its MOUNT protocol on 20048.
kernel_server() {
	rpc_services
	software_rdma
	module nfsd
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	# The largest transfers whatever the guest's memory, groups as the client names them.
	echo 1048576 >/proc/fs/nfsd/max_block_size
	rm -rf /etc/nfs.conf /etc/nfs.conf.d
	must exportfs -i -o "rw,${SYNC:-sync},insecure,no_root_squash,no_subtree_check,fsid=1" "*:$1"
	must rpc.mountd -p 20048
	must rpc.nfsd --no-nfs-version 4 "${KNFSD_THREADS:-4}"
	echo "rdma 20049" >/proc/fs/nfsd/portlist || fail "knfsd does not listen on RDMA"
}
