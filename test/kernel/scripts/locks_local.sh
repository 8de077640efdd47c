# locks_local HOW: a client locks bytes 0 to 49, and then asks for bytes that a program on the server's machine has
# locked.
mount_over "$1" /mnt/n
echo content >/mnt/n/lock
must "$WORKER" range /mnt/n/lock 0 50 granted locked "$SHARED/signal.local"
must "$WORKER" range /mnt/n/lock 100 10 refused
must "$WORKER" range /mnt/n/lock 120 10 granted
must umount /mnt/n
