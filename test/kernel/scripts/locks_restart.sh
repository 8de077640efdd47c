# locks_restart HOW holder|other: holder has a file open and locked while its server is killed; other asks for the
# lock.
mount_over "$1" /mnt/n lookupcache=none
if [ "$2" = holder ]; then
	exec 5>/mnt/n/lock; flock -x 5 || fail "a lock on a file that nobody has"
	echo before >&5
	event locked
	await go-on
	echo after >&5 || fail "writing to a file that was open when the server was killed"
	must sync -f /mnt/n
	event written
	await unlock
	flock -u 5 || fail "giving up a lock that was claimed again"
	exec 5>&-
else
	flock -n /mnt/n/lock true && fail "a lock that another client has was granted"
	event refused
	await again
	flock -n /mnt/n/lock true && fail "a lock was granted that its holder was about to claim, or whose lease runs"
	event refused-again
	flock -w 120 /mnt/n/lock cat /mnt/n/lock >/tmp/seen || fail "the lock was not granted when nobody had it any more"
	head -1 /tmp/seen | grep -q before || fail "what the holder wrote before: $(cat /tmp/seen)"
fi
must umount /mnt/n
