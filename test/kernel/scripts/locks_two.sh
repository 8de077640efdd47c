# locks_two HOW WHO: client 0 has a lock that client 1 asks for. Then both wait for each other.
mount_over "$1" /mnt/n lookupcache=none
if [ "$2" = 0 ]; then
	exec 5<>/mnt/n/lock || exec 5>/mnt/n/lock; flock -x 5 || fail "a lock on a file that nobody has"
	event locked
	await unlock
	echo written >&5
	flock -u 5; exec 5>&-
else
	flock -n /mnt/n/lock true && fail "a lock that another client has was granted"
	event refused
	flock -w 60 /mnt/n/lock cat /mnt/n/lock >/tmp/seen || fail "the lock was not granted when the other client had given it up"
	equal "$(cat /tmp/seen)" written "what the other client wrote while it had the lock"
fi
# Both clients have a shared lock and convert it to an exclusive one. The lock protocol of version 3 knows no deadlock.
case $1 in */4.*)
	exec 5<>/mnt/n/lock; flock -s 5 || fail "a shared lock"
	event shared
	await convert
	if flock -w 60 -x 5 2>/tmp/why; then
		echo "the lock is converted"
	else
		grep -qi deadlock /tmp/why || fail "the conversion failed otherwise: $(cat /tmp/why)"
		echo "the lock cannot be converted: a deadlock"
	fi
	flock -u 5; exec 5>&-
esac
must umount /mnt/n
