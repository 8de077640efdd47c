# relay_callbacks: Linux's client mounts Linux's own server, which is reached over siw, through a relay in this guest.
# The server recalls a delegation, and the client returns it.
mkdir -p /srv/memory /mnt/n
must mount -t tmpfs -o size=100m memory /srv/memory
kernel_server /srv/memory
waiting_for 20 listening 20048
greet "$ADDRESS"
"$NFSRDMAD" relay --listen 127.0.0.1:3049 --mount-port 20048 --verbose "$ADDRESS" &
relay=$!
waiting_for 20 listening 3049

delegated() {
	exec 3</mnt/n/file || return 1
	grep -q 'type: deleg' /proc/fs/nfsd/clients/*/states && return 0
	exec 3<&- # the server grants a delegation only after it has tried the way back
	return 1
}
for version in 4.1 4.2; do
	step "version $version"
	echo first >/srv/memory/file
	# knfsd may lose the first message of a connection that siw has just made, and the mount then waits for its answer.
	for try in 1 2 3; do
		timeout 60 mount -t nfs4 -o "vers=$version,port=3049,proto=tcp,sec=sys" 127.0.0.1:/ /mnt/n && break
		[ $try -lt 3 ] || fail "mount of version $version"
	done
	waiting_for 60 delegated || fail "the server grants no delegation"
	# The server opens the file for writing, and that waits until the client has returned its delegation. A server that
	# cannot call back waits for the end of the lease, 90 s.
	begun=$(date +%s%N)
	timeout 60 sh -c 'echo second >>/srv/memory/file' || fail "the delegation was not returned"
	echo "version $version: the delegation was returned in $((($(date +%s%N) - begun) / 1000000)) ms"
	equal "$(tail -n 1 /mnt/n/file)" "second" "content"
	exec 3<&-
	must umount /mnt/n
	rm /srv/memory/file
done
must kill $relay
wait $relay || fail "relay ended with $?"
echo "delegations recalled through the relay"
