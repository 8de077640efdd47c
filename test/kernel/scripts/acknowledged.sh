# acknowledged rdma|tcp LEDGERS: everything that was acknowledged to a client that is no more is there.
mount_over "$1" /mnt/n
must "$WORKER" check /mnt/n/load "$2"
must umount /mnt/n
