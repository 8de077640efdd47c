# transfer_sizes rdma|tcp: copy a file with different rsize and wsize.
head -c 5000003 /dev/urandom >/tmp/wanted
for size in 1024 4096 65536 1048576; do
	mount_over "$1" /mnt/n "rsize=$size,wsize=$size"
	must cp /tmp/wanted /mnt/n/file
	again "$1" /mnt/n "rsize=$size,wsize=$size"
	same /tmp/wanted /mnt/n/file
	[ "$size" = 1048576 ] && { grep " /mnt/n " /proc/mounts | grep -q "rsize=1048576,wsize=1048576" || fail "the server does not take 1 MiB: $(grep /mnt/n /proc/mounts)"; }
	must umount /mnt/n
done
