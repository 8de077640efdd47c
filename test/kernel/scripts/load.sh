# load rdma|tcp LEDGERS strict|outages: run the load until the test says stop, then check everything that the server
# acknowledged.
mount_over "$1" /mnt/n
mkdir /mnt/n/load
event loading
must "$WORKER" load /mnt/n/load "$2" 4 "$SHARED/signal.stop" "$3"
again "$1" /mnt/n
must "$WORKER" check /mnt/n/load "$2"
must umount /mnt/n
