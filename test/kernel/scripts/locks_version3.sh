# locks_version3 HOW WHO: client 0 has locks that client 1 waits for: one it gives up, one its program is killed with.
mount_over "$1" /mnt/n lookupcache=none
if [ "$2" = 0 ]; then
	exec 5<>/mnt/n/lock || exec 5>/mnt/n/lock; flock -x 5 || fail "a lock on a file that nobody has"
	flock /mnt/n/killed sleep 1000 &
	waiting_for 20 eval '! flock -n /mnt/n/killed true'
	event locked
	await unlock
	echo written >&5
	flock -u 5; exec 5>&-
	await kill
	kill -9 $!; pkill -9 -x sleep
	await end
else
	flock -n /mnt/n/lock true && fail "a lock that another client has was granted"
	( flock /mnt/n/lock cat /mnt/n/lock >/tmp/seen ) &
	waiting_for 20 pgrep -x flock >/dev/null
	event waits
	wait $! || fail "the lock was not granted when the other client had given it up"
	equal "$(cat /tmp/seen)" written "what the other client wrote while it had the lock"
	event granted
	flock /mnt/n/killed true || fail "the lock of a program that was killed"
	event done
fi
must umount /mnt/n
