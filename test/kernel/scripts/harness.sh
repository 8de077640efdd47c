# Linux's own server and client in one guest, over siw. This tests the parts of the lab itself.
mkdir -p /srv/memory
must mount -t tmpfs -o size=300m memory /srv/memory
kernel_server /srv/memory
EXPORT=/srv/memory SERVER=$ADDRESS MOUNT_PORT=20048
head -c 16M /dev/urandom >/tmp/wanted
mount_over rdma /mnt/n
grep -q 'proto=rdma' /proc/mounts || fail "the mount is not over RDMA"
must cp /tmp/wanted /mnt/n/file
again rdma /mnt/n
same /tmp/wanted /mnt/n/file
event compared
await leave
must umount /mnt/n
