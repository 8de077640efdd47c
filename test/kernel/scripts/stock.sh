# stock HOW...: a few files, names and locks for each HOW, because a stock kernel is slow here. A HOW is the argument
# of mount_over, with the flavor behind it if that is not sys, as in rdma/4.2:krb5p. If CLIENT_NAME is set, the guest
# is a client in the realm.
step "$(uname -r)"

# offered: print the number of memory segments that the client of /mnt/n has offered to the server, and the number of
# calls after which the client itself invalidated memory.
offered() { awk '/^device / { here = / mounted on \/mnt\/n / } here && $1 == "xprt:" { print $13 + $14 + $15, $27; exit }' /proc/self/mountstats; }

# invalidated: test that the server's software RNIC invalidates the memory of a READ, so that the client need not do
# it.
invalidated() {
	local before after
	read -ra before < <(offered)
	must dd if=/mnt/n/l of=/dev/null iflag=direct bs=256K status=none
	read -ra after < <(offered)
	step "$((after[0] - before[0])) segments of memory; the client invalidated memory itself for $((after[1] - before[1])) calls"
	[ $((after[0] - before[0])) -ge 16 ] || fail "16 READs offered too little memory"
	[ -n "$RDMA_DEVICE" ] || [ $((after[1] - before[1])) -le 2 ] || fail "the server does not invalidate it"
}

cp "$WORKER" /run/worker # kerberos_client hides /tmp
if [ -n "$CLIENT_NAME" ]; then
	kerberos_client
	ticket 12001 alice; ticket 12002 bob
fi

step "what is mounted where nothing but RDMA is asked for"
module nfsv4; software_rdma; rpc_pipes; greet "$SERVER"; mkdir -p /mnt/n
must mount -t nfs -o proto=rdma,port=20049 "${SERVER_NAME:-$SERVER}:/" /mnt/n
nfsstat -m | grep -q 'vers=4.2,.*proto=rdma' || fail "not NFSv4.2: $(nfsstat -m)"
[ -d "/mnt/n$EXPORT" ] || fail "no $EXPORT in the root: $(ls /mnt/n)"
must touch "/mnt/n$EXPORT/f"; must rm "/mnt/n$EXPORT/f"
must umount /mnt/n

for each; do
	how=${each%:*} security=sys
	[ "$how" = "$each" ] || security=${each#*:}
	mount_over "$how" /mnt/n "sec=$security"
	grep -q " /mnt/n .*sec=$security[, ]" /proc/mounts || fail "not mounted with sec=$security: $(grep /mnt/n /proc/mounts)"
	head -c 4M /dev/urandom >/tmp/wanted
	must cp /tmp/wanted /mnt/n/file
	mkdir /mnt/n/d; for i in $(seq 100); do echo $i >/mnt/n/d/$i; done
	ln -s file /mnt/n/s; ln /mnt/n/file /mnt/n/l; mv /mnt/n/d/7 /mnt/n/d/seven
	must mkdir -m 1777 /mnt/n/open
	as 12001 bash -c 'cp /tmp/wanted /mnt/n/open/copy && chmod 600 /mnt/n/open/copy && mkdir /mnt/n/open/d && : >/mnt/n/open/d/f' ||
		fail "a user cannot make files"
	again "$how" /mnt/n "sec=$security"
	same /tmp/wanted /mnt/n/s
	equal "$(ls /mnt/n/d | wc -l)" 100 "names"
	equal "$(cat /mnt/n/d/seven)" 7 "a renamed file"
	must dd if=/mnt/n/l iflag=direct bs=100001 status=none | cmp - /tmp/wanted || fail "direct reads differ"
	equal "$(stat -c '%u %g %a' /mnt/n/open/copy)" "12001 12001 600" "whose a user's file is"
	as 12001 cmp /tmp/wanted /mnt/n/open/copy || fail "a user's file differs"
	as 12002 cat /mnt/n/open/copy 2>/dev/null | cmp -s - /tmp/wanted && fail "another user reads a file of mode 600"
	as 12002 rm -rf /mnt/n/open/d 2>/dev/null && fail "another user removes a directory"
	must /run/worker direct /mnt/n/direct 44
	if [ "${how#*/}" != "$how" ]; then
		exec 5<>/mnt/n/file; must flock -n 5
		flock -n /mnt/n/file true && fail "a lock that another open has was granted"
		exec 5>&-
		must flock -n /mnt/n/file true
		must /run/worker ranges /mnt/n/file
	fi
	[ "$how" != rdma ] || invalidated
	must rm -rf /mnt/n/*
	must umount /mnt/n
	step "$each works"
done
