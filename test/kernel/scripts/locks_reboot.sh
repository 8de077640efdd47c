# locks_reboot first|again|other: first has a lock when its machine is killed, and again is the same machine's next boot: the
# status monitor has what it has stored in $STATD. other waits for the lock.
if [ "$1" != other ]; then
	mkdir -p "$STATD"/sm "$STATD"/sm.bak
	hostname "guest${ADDRESS##*.}"
	rpc_services
	step "the status monitor"
	must rpc.statd --no-notify -P "$STATD"
	must sm-notify -P "$STATD"
fi
case $1 in
first)
	mount_over tcp /mnt/n lookupcache=none
	exec 5>/mnt/n/lock; flock -x 5 || fail "a lock on a file that nobody has"
	waiting_for 20 eval '[ -n "$(ls "$STATD"/sm)" ]'
	sync -f "$STATD"
	event locked
	await never;;
other)
	mount_over tcp /mnt/n lookupcache=none
	( flock /mnt/n/lock true && echo had >/tmp/had ) &
	waiting_for 20 pgrep -x flock
	event waits
	await killed
	[ ! -e /tmp/had ] || fail "the lock of a client that runs"
	flock -n /mnt/n/lock true && fail "the lock of a client that has not said that it is gone"
	event refused
	wait $!
	[ -e /tmp/had ] || fail "the lock was not granted when its holder had said that it was gone"
	event granted
	must umount /mnt/n;;
again)
	await granted
	mount_over tcp /mnt/n lookupcache=none
	flock -n /mnt/n/lock true || fail "a lock that nobody has any more"
	must umount /mnt/n;;
esac
