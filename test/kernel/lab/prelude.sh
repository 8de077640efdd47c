# Functions that every script in a guest can call. The lab sets these variables: KERNEL, ADDRESS (the guest's
# address), SERVER (this machine's address, unless the test sets another one), NIC (the guest's network interface) and
# SHARED (a folder that the guest shares with the test).

# step TEXT: print the progress of the script, with the seconds since boot.
step() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }

# fail TEXT: print TEXT and exit with status 1. In a subshell, only the subshell exits.
fail() { echo "FAIL: $*"; exit 1; }

# must COMMAND...: run the command; fail if the command fails.
must() { "$@" || fail "$* (status $?)"; }

# event NAME: tell the test that NAME has happened. The test waits for it with Guest.Await.
event() { echo "::event $1"; }

# await NAME: wait until the test calls Guest.Signal with NAME.
await() { until [ -e "$SHARED/signal.$1" ]; do sleep 0.1; done; }

# same FILE FILE: fail unless both files have the same bytes.
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

# equal GOT WANTED TEXT: fail unless GOT is WANTED.
equal() { [ "$1" = "$2" ] || fail "$3: got '$1', wanted '$2'"; }

# module NAME...: load kernel modules. A user-mode kernel has all of them built in.
module() { [[ $KERNEL = uml* ]] || modprobe -a "$@" || fail "no module $*"; }

# software_rdma: create a software RDMA device on the guest's network interface. RDMA_DEVICE is siw (iWARP) or rxe
# (RoCE).
software_rdma() {
	local kind=${RDMA_DEVICE:-siw} driver=siw
	[ -e /sys/class/infiniband/${kind}0 ] && return
	[ $kind = siw ] || driver=rdma_rxe
	module $driver ib_uverbs rdma_ucm rpcrdma
	must rdma link add ${kind}0 type $kind netdev "$NIC"
}

# greet ADDRESS: send a datagram to the discard port, so that the neighbour table gets the address. Without an entry
# there, rdma_cm would wait five seconds.
greet() { { echo >"/dev/udp/$1/9"; } 2>/dev/null; local i; for i in 1 2 3 4 5 6 7 8 9 10; do ip neigh show "$1" | grep -q lladdr && return; sleep 0.05; done; }

# mount_over HOW DIR [OPTIONS]: mount the server's export with the options that nfsrdmad prints. HOW is rdma or tcp
# for NFSv3, or has a version of NFSv4 behind it, as in rdma/4.1. With LOCKS=lock, NFSv3 locks on the server.
mount_over() {
	local transport=${1%%/*} version=${1#*/} options
	[ "$version" != "$1" ] || version=3
	options="vers=$version,proto=$transport"
	[ "$version" != 3 ] || options+=",${LOCKS:-nolock},mountport=${MOUNT_PORT:-2049},mountproto=tcp"
	case $transport in
		rdma) software_rdma; options+=",port=20049";;
		tcp) options+=",port=2049";;
	esac
	case $version in
		3) module nfsv3;;
		*) rpc_pipes; module nfsv4;;
	esac
	[ "$version$LOCKS" != 3lock ] || lock_services
	greet "$SERVER"
	mkdir -p "$2"
	must mount -t nfs -o "$options${3:+,$3}" "${SERVER_NAME:-$SERVER}:$EXPORT" "$2"
	[ "$version" = 3 ] || nfsstat -m | grep -q "vers=$version,.*proto=$transport" || fail "not mounted as asked: $(nfsstat -m)"
}

# rpc_pipes: mount rpc_pipefs, through which the kernel asks programs of this guest about names and Kerberos.
rpc_pipes() {
	mountpoint -q /var/lib/nfs/rpc_pipefs && return
	mountpoint -q /var/lib/nfs || mount -t tmpfs memory /var/lib/nfs
	mkdir -p /var/lib/nfs/rpc_pipefs
	module sunrpc
	mount -t rpc_pipefs pipes /var/lib/nfs/rpc_pipefs
}

# realm_users: add the users of the lab's realm to this guest.
realm_users() {
	printf '%s:x:%s:%s::/:/bin/sh\n' alice 12001 12001 bob 12002 12002 >>/etc/passwd
	printf '%s:x:%s:\n' alice 12001 bob 12002 both 12000 >>/etc/group
}

# kerberos_client: make this guest a client in the realm whose krb5.conf is $REALM_CONF, with the host name
# $CLIENT_NAME and the keys in $CLIENT_KEYTAB. Mounts then use the server's name, $SERVER_NAME.
kerberos_client() {
	hostname "$CLIENT_NAME"
	printf '%s %s\n' 127.0.0.1 localhost "$ADDRESS" "$CLIENT_NAME" "$SERVER" "$SERVER_NAME" >/etc/hosts
	# NFSv4 sends the names of owners, and the kernel asks nfsidmap for their numbers.
	realm_users
	printf '[General]\nDomain = %s\n' "${CLIENT_NAME#*.}" >/etc/idmapd.conf
	must cp "$REALM_CONF" /etc/krb5.conf
	must install -m 600 "$CLIENT_KEYTAB" /etc/krb5.keytab
	mount -t tmpfs memory /tmp
	chmod 1777 /tmp
	rpc_pipes
	rpc.gssd -f -p /var/lib/nfs/rpc_pipefs &
	GSSD=$!
	waiting_for 20 gssd_listens
}

# gssd_listens: succeed if rpc.gssd has opened the kernel's pipe for GSS contexts. Without that, a mount with Kerberos
# fails at once.
gssd_listens() { ls -l "/proc/$GSSD/fd" | grep -q '/gssd/.*/gssd'; }

# as USER COMMAND...: run the command with this user id, and with the group of the same number as its only group.
as() { local who=$1; shift; setpriv --reuid "$who" --regid "$who" --clear-groups --inh-caps=-all "$@"; }

# ticket USER PRINCIPAL: get a ticket for the user with this id, with the password that all principals have.
ticket() { echo secret | as "$1" kinit -c "FILE:/tmp/krb5cc_$1" "$2" >/dev/null || fail "no ticket for $2"; }

# again rdma|tcp DIR [OPTIONS]: unmount DIR and mount it again, so that the next reads come from the server and not
# from a cache.
again() { must umount "$2"; mount_over "$@"; }

# waiting_for SECONDS COMMAND...: repeat the command until it succeeds; fail after SECONDS.
waiting_for() {
	local seconds=$1 end=$((SECONDS + $1)); shift
	until "$@"; do [ $SECONDS -lt $end ] || fail "not within $seconds s: $*"; sleep 0.1; done
}

# listening PORT: succeed if this guest has a TCP listener on the port.
listening() { grep -qi ":$(printf %04x "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# lock_services: start what a client of NFSv3 needs for locks on the server. Its name is that of no other guest.
lock_services() {
	pgrep -x rpc.statd >/dev/null && return
	hostname "guest${ADDRESS##*.}"
	rpc_services
	must rpc.statd
}

# rpc_services: start rpcbind and create the folders in which the kernel's server keeps its state.
rpc_services() {
	[ -e /var/lib/nfs/sm.bak ] && mountpoint -q /var/lib/nfs && return
	rpc_pipes
	mkdir -p /var/lib/nfs/{v4recovery,sm,sm.bak}
	touch /var/lib/nfs/{etab,rmtab,state}
	rpcbind -w
}

# kernel_server DIR: start Linux's own server as a peer. It exports DIR on TCP port 2049 and RDMA port 20049, with its
# MOUNT protocol on port 20048. In NFSv4, DIR is the root of the name space.
kernel_server() {
	rpc_services
	software_rdma
	module nfsd
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	# max_block_size permits the largest transfers, however little memory the guest has. Without nfs.conf, the server
	# uses the groups that the client sends.
	echo 1048576 >/proc/fs/nfsd/max_block_size
	rm -rf /etc/nfs.conf /etc/nfs.conf.d
	must exportfs -i -o "rw,${SYNC:-sync},insecure,no_root_squash,no_subtree_check,fsid=0" "*:$1"
	must rpc.mountd -p 20048
	# lockd has its own grace period, five times its timeout. During this period NFSv4 grants no locks either.
	module lockd
	echo 3 >/proc/sys/fs/nfs/nlm_timeout
	echo 3 >/proc/sys/fs/nfs/nlm_grace_period
	must rpc.nfsd "${KNFSD_THREADS:-4}"
	echo Y >/proc/fs/nfsd/v4_end_grace # no client has anything to reclaim
	echo "rdma 20049" >/proc/fs/nfsd/portlist || fail "knfsd does not listen on RDMA"
}

# only_devices GROUP NODE...: fail unless the rule for devices of this control group permits these nodes, and forbids
# others. Root can open every node, so only the rule can forbid an open.
only_devices() {
	local group=$1 node; shift
	for node in "$@" /dev/null; do
		( echo $BASHPID >"$group/cgroup.procs"; : <>"$node" ) || fail "the rule for devices forbids $node"
	done
	for node in /dev/kmsg /dev/mem; do
		( : <$node ) || fail "$node cannot be opened without the rule for devices"
		! ( echo $BASHPID >"$group/cgroup.procs"; : <$node ) 2>/dev/null || fail "the rule for devices permits $node"
	done
}
