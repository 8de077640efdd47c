# nconnect rdma|tcp: copy files and create names over a mount with eight connections.
mount_over "$1" /mnt/n nconnect=8
connections=$(grep -c "^[[:space:]]*xprt:" /proc/self/mountstats)
[ "$connections" -ge 8 ] || fail "$connections connections, not 8"
for i in 1 2 3 4 5 6 7 8; do
	( head -c 6M /dev/urandom >/tmp/wanted$i && cp /tmp/wanted$i /mnt/n/file$i && mkdir /mnt/n/dir$i && for j in $(seq 40); do echo $j >/mnt/n/dir$i/$j; done ) || fail "worker $i" &
	pids+=($!)
done
for p in "${pids[@]}"; do wait $p || fail "a worker failed"; done
again "$1" /mnt/n nconnect=8
for i in 1 2 3 4 5 6 7 8; do
	same /tmp/wanted$i /mnt/n/file$i
	equal "$(cat /mnt/n/dir$i/* | sort -n | md5sum)" "$(seq 40 | md5sum)" "directory $i"
done
must umount /mnt/n
