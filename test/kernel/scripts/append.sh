# append rdma|tcp WHO COUNT: append COUNT lines to a file, in turns with another client. WHO is 0 or 1.
mount_over "$1" /mnt/n
must "$WORKER" append /mnt/n/log "$2" "$3"
if [ "$2" = 1 ]; then
	for ((turn = 0; turn < $3; turn++)); do echo "turn $turn of client 0"; echo "turn $turn of client 1"; done | cmp - /mnt/n/log || fail "the file is not what both wrote"
fi
must umount /mnt/n
