# stock HOW...: a short day's work, each way, on a kernel that is slow here.
step "$(uname -r)"

step "what is mounted where nothing but RDMA is asked for"
module nfsv4; software_rdma; rpc_pipes; greet "$SERVER"; mkdir -p /mnt/n
must mount -t nfs -o proto=rdma,port=20049 "$SERVER:/" /mnt/n
nfsstat -m | grep -q 'vers=4.2,.*proto=rdma' || fail "not NFSv4.2: $(nfsstat -m)"
[ -d "/mnt/n$EXPORT" ] || fail "no $EXPORT in the root: $(ls /mnt/n)"
must touch "/mnt/n$EXPORT/f"; must rm "/mnt/n$EXPORT/f"
must umount /mnt/n

for how; do
	mount_over "$how" /mnt/n
	head -c 4M /dev/urandom >/tmp/wanted
	must cp /tmp/wanted /mnt/n/file
	mkdir /mnt/n/d; for i in $(seq 100); do echo $i >/mnt/n/d/$i; done
	ln -s file /mnt/n/s; ln /mnt/n/file /mnt/n/l; mv /mnt/n/d/7 /mnt/n/d/seven
	again "$how" /mnt/n
	same /tmp/wanted /mnt/n/s
	equal "$(ls /mnt/n/d | wc -l)" 100 "names"
	equal "$(cat /mnt/n/d/seven)" 7 "a renamed file"
	must dd if=/mnt/n/l iflag=direct bs=100001 status=none | cmp - /tmp/wanted || fail "direct reads differ"
	must "$WORKER" direct /mnt/n/direct 44
	if [ "${how#*/}" != "$how" ]; then
		exec 5<>/mnt/n/file; must flock -n 5
		flock -n /mnt/n/file true && fail "a lock that another open has was granted"
		exec 5>&-
		must flock -n /mnt/n/file true
		must "$WORKER" ranges /mnt/n/file
	fi
	must rm -rf /mnt/n/*
	must umount /mnt/n
	step "$how works"
done
