# direct rdma|tcp: direct I/O on two files at the same time, so that their transfers overlap.
mount_over "$1" /mnt/n
"$WORKER" direct /mnt/n/first 11 & first=$!
"$WORKER" direct /mnt/n/second 22 & second=$!
wait $first || fail "direct I/O on the first file"
wait $second || fail "direct I/O on the second file"
must umount /mnt/n
