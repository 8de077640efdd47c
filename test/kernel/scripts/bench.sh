# bench HOW SECURITY: run the jobs of the comparison and leave the results in $SHARED. HOW is the argument of
# mount_over. $MEMORY and $DISK are the server's exports. If $IMAGE is set, this guest runs the server itself.
if [ -n "$IMAGE" ]; then
	mkdir -p /srv/memory
	must mount -t tmpfs -o size=700m memory /srv/memory
	mkdir /srv/memory/disk
	must mount -o loop "$IMAGE" /srv/memory/disk
	chmod 777 /srv/memory /srv/memory/disk # under Kerberos, the client's machine acts as nobody
fi
if [ -n "$REALM_CONF" ]; then
	# kerberos_client hides /tmp, where the worker is.
	must cp "$WORKER" /srv/worker
	WORKER=/srv/worker
	kerberos_client
fi
if [ -n "$IMAGE" ]; then
	SYNC=async,sec=$2 kernel_server /srv/memory
	must exportfs -i -o "rw,async,sec=$2,insecure,no_root_squash,no_subtree_check,fsid=2" "*:/srv/memory/disk"
	[ -z "$REALM_CONF" ] || must rpc.svcgssd
	# In NFSv4, the first of these exports is the root of the name space.
	MEMORY=/srv/memory DISK=/srv/memory/disk
	[ "${1#*/}" = "$1" ] || MEMORY=/ DISK=/disk
	SERVER=$ADDRESS SERVER_NAME=${CLIENT_NAME:-$ADDRESS} MOUNT_PORT=20048
fi
EXPORT=${MEMORY:-/memory}
mount_over "$1" /mnt/memory "sec=$2"
job() { # NAME, then fio's options
	local name=$1; shift
	must fio --name="$name" --filename=/mnt/memory/file --size=384m --ioengine=libaio --direct=1 --eta=never --output-format=json --output="$SHARED/$name.json" "$@"
}
job write --rw=write --bs=1m --iodepth=4 --runtime=4 --time_based
job read --rw=read --bs=1m --iodepth=4 --runtime=4 --time_based
job randread --rw=randread --bs=4k --iodepth=16 --runtime=4 --time_based
must umount /mnt/memory
EXPORT=${DISK:-/disk}
mount_over "$1" /mnt/disk "sec=$2"
must "$WORKER" rounds /mnt/disk 4 4
must umount /mnt/disk
