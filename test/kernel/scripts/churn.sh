# churn rdma|tcp: add and remove names in a directory until the test says stop.
mount_over "$1" /mnt/n
( sleep 0.5; event changing ) &
must "$WORKER" churn /mnt/n/d "$SHARED/signal.stop"
must umount /mnt/n
