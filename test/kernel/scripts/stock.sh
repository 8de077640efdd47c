# A short day's work over each transport, on a kernel that is slow here.
step "$(uname -r)"
for transport in rdma tcp; do
	mount_over $transport /mnt/n
	head -c 4M /dev/urandom >/tmp/wanted
	must cp /tmp/wanted /mnt/n/file
	mkdir /mnt/n/d; for i in $(seq 100); do echo $i >/mnt/n/d/$i; done
	ln -s file /mnt/n/s; ln /mnt/n/file /mnt/n/l; mv /mnt/n/d/7 /mnt/n/d/seven
	again $transport /mnt/n
	same /tmp/wanted /mnt/n/s
	equal "$(ls /mnt/n/d | wc -l)" 100 "names"
	equal "$(cat /mnt/n/d/seven)" 7 "a renamed file"
	must dd if=/mnt/n/l iflag=direct bs=100001 status=none | cmp - /tmp/wanted || fail "direct reads differ"
	must "$WORKER" direct /mnt/n/direct 44
	must rm -rf /mnt/n/*
	must umount /mnt/n
	step "$transport works"
done
