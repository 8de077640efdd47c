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

# software_rdma: a device of the kernel's on the guest's network interface: RDMA_DEVICE is siw (iWARP) or rxe (RoCE).
software_rdma() {
	local kind=${RDMA_DEVICE:-siw} driver=siw
	[ -e /sys/class/infiniband/${kind}0 ] && return
	[ $kind = siw ] || driver=rdma_rxe
	module $driver ib_uverbs rdma_ucm rpcrdma
	must rdma link add ${kind}0 type $kind netdev "$NIC"
}

# greet ADDRESS: a datagram to the discard port, so that the neighbour table knows the address. rdma_cm would wait five
# seconds for an address that it does not find there.
greet() { { echo >"/dev/udp/$1/9"; } 2>/dev/null; local i; for i in 1 2 3 4 5 6 7 8 9 10; do ip neigh show "$1" | grep -q lladdr && return; sleep 0.05; done; }

# mount_over HOW DIR [OPTIONS]: the server's export, by the options that the product prints. HOW is rdma or tcp, over
# NFSv3, or with a version behind it: rdma/4.1.
mount_over() {
	local transport=${1%%/*} version=${1#*/} options
	[ "$version" != "$1" ] || version=3
	options="vers=$version,proto=$transport"
	[ "$version" != 3 ] || options+=",nolock,mountport=${MOUNT_PORT:-2049},mountproto=tcp"
	case $transport in
		rdma) software_rdma; options+=",port=20049";;
		tcp) options+=",port=2049";;
	esac
	case $version in
		3) module nfsv3;;
		*) rpc_pipes; module nfsv4;;
	esac
	greet "$SERVER"
	mkdir -p "$2"
	must mount -t nfs -o "$options${3:+,$3}" "${SERVER_NAME:-$SERVER}:$EXPORT" "$2"
	[ "$version" = 3 ] || nfsstat -m | grep -q "vers=$version,.*proto=$transport" || fail "not mounted as asked: $(nfsstat -m)"
}

# rpc_pipes: where the kernel asks programs of this guest about names and Kerberos.
rpc_pipes() {
	mountpoint -q /var/lib/nfs/rpc_pipefs && return
	mountpoint -q /var/lib/nfs || mount -t tmpfs memory /var/lib/nfs
	mkdir -p /var/lib/nfs/rpc_pipefs
	module sunrpc
	mount -t rpc_pipefs pipes /var/lib/nfs/rpc_pipefs
}

# realm_users: this guest has the users of the lab's realm.
realm_users() {
	printf '%s:x:%s:%s::/:/bin/sh\n' alice 12001 12001 bob 12002 12002 >>/etc/passwd
	printf '%s:x:%s:\n' alice 12001 bob 12002 both 12000 >>/etc/group
}

# kerberos_client: this guest in the realm whose krb5.conf is $REALM_CONF, by the name $CLIENT_NAME, with the keys in
# $CLIENT_KEYTAB. Servers are mounted by $SERVER_NAME from now on.
kerberos_client() {
	hostname "$CLIENT_NAME"
	printf '%s %s\n' 127.0.0.1 localhost "$ADDRESS" "$CLIENT_NAME" "$SERVER" "$SERVER_NAME" >/etc/hosts
	# Owners of files travel by name, and the kernel asks nfsidmap for the numbers.
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

# gssd_listens: the kernel's question for a first context finds rpc.gssd. Where it does not, mounting fails at once.
gssd_listens() { ls -l "/proc/$GSSD/fd" | grep -q '/gssd/.*/gssd'; }

# as USER COMMAND...: as the user with that number, and no other group than that of the same number.
as() { local who=$1; shift; setpriv --reuid "$who" --regid "$who" --clear-groups --inh-caps=-all "$@"; }

# ticket USER PRINCIPAL: a ticket for the user with that number, by the password that all principals have.
ticket() { echo secret | as "$1" kinit -c "FILE:/tmp/krb5cc_$1" "$2" >/dev/null || fail "no ticket for $2"; }

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
	[ -e /var/lib/nfs/sm.bak ] && mountpoint -q /var/lib/nfs && return
	rpc_pipes
	mkdir -p /var/lib/nfs/{v4recovery,sm,sm.bak}
	touch /var/lib/nfs/{etab,rmtab,state}
	rpcbind -w
}

# kernel_server DIR: Linux's own server, as a peer: DIR on TCP 2049 and RDMA 20049, its MOUNT protocol on 20048; with NFSv4
# DIR is the root of all names.
kernel_server() {
	rpc_services
	software_rdma
	module nfsd
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	# The largest transfers whatever the guest's memory, groups as the client names them.
	echo 1048576 >/proc/fs/nfsd/max_block_size
	rm -rf /etc/nfs.conf /etc/nfs.conf.d
	must exportfs -i -o "rw,${SYNC:-sync},insecure,no_root_squash,no_subtree_check,fsid=0" "*:$1"
	must rpc.mountd -p 20048
	# lockd has a grace period of its own, five of its timeouts long, during which NFSv4 takes no locks either.
	module lockd
	echo 3 >/proc/sys/fs/nfs/nlm_timeout
	echo 3 >/proc/sys/fs/nfs/nlm_grace_period
	must rpc.nfsd "${KNFSD_THREADS:-4}"
	echo Y >/proc/fs/nfsd/v4_end_grace # nobody has anything to claim
	echo "rdma 20049" >/proc/fs/nfsd/portlist || fail "knfsd does not listen on RDMA"
}
