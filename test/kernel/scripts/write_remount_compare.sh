# write_remount_compare rdma|tcp: write files, mount again, and compare their content.
mount_over "$1" /mnt/n
head -c 64M /dev/urandom >/tmp/wanted
must cp /tmp/wanted /mnt/n/large
must dd if=/tmp/wanted of=/mnt/n/small-blocks bs=777 count=5000 status=none
again "$1" /mnt/n
same /tmp/wanted /mnt/n/large
head -c $((777 * 5000)) /tmp/wanted | cmp - /mnt/n/small-blocks || fail "small blocks differ"
# Read with O_DIRECT, in blocks whose size is not a power of two.
must dd if=/mnt/n/large iflag=direct bs=300001 status=none | cmp - /tmp/wanted || fail "direct reads differ"
equal "$(stat -c %s /mnt/n/large)" $((64 << 20)) "size"
must rm /mnt/n/large /mnt/n/small-blocks
equal "$(ls -A /mnt/n)" "" "what is left"
must umount /mnt/n
