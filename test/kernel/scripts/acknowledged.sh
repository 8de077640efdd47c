# acknowledged rdma|tcp LEDGERS: check that everything is present that the server acknowledged to a client that was
# killed.
mount_over "$1" /mnt/n
must "$WORKER" check /mnt/n/load "$2"
must umount /mnt/n
