# bench rdma|tcp: the jobs of the comparison; results are left in $SHARED. $MEMORY and $DISK are the server's exports,
# unless $IMAGE makes this guest its own server.
if [ -n "$IMAGE" ]; then
	mkdir -p /srv/memory /srv/disk
	must mount -t tmpfs -o size=700m memory /srv/memory
	must mount -o loop "$IMAGE" /srv/disk
	SYNC=async kernel_server /srv/memory
	must exportfs -i -o rw,async,insecure,no_root_squash,no_subtree_check,fsid=2 "*:/srv/disk"
	MEMORY=/srv/memory DISK=/srv/disk SERVER=$ADDRESS MOUNT_PORT=20048
fi
EXPORT=${MEMORY:-/memory}
mount_over "$1" /mnt/memory
job() { # NAME then fio's options
	local name=$1; shift
	must fio --name="$name" --filename=/mnt/memory/file --size=384m --ioengine=libaio --direct=1 --eta=never --output-format=json --output="$SHARED/$name.json" "$@"
}
job write --rw=write --bs=1m --iodepth=4 --runtime=4 --time_based
job read --rw=read --bs=1m --iodepth=4 --runtime=4 --time_based
job randread --rw=randread --bs=4k --iodepth=16 --runtime=4 --time_based
must umount /mnt/memory
EXPORT=${DISK:-/disk}
mount_over "$1" /mnt/disk
must "$WORKER" rounds /mnt/disk 4 4
must umount /mnt/disk
