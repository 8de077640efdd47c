# idle rdma|tcp: mount the export, write a file, and do nothing more until the test kills this guest.
mount_over "$1" /mnt/n
must dd if=/dev/urandom of=/mnt/n/file bs=64K count=4 conv=fsync status=none
event idle
await stop
