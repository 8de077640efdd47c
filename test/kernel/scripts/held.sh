# held ROUNDS HOW...: hold files of all file systems below the export open while the test changes what is mounted, by
# mounts of each way. $ALONE are the exports beside it. Each round begins with new mounts.
rounds=$1; shift
unmounted() { umount -R "$1" 2>/dev/null || ! mountpoint -q "$1"; }
await begin
for round in $(seq "$rounds"); do
	mounts=
	for how in "$@"; do
		at=/mnt/${how//\//-}
		mount_over "$how" "$at"
		for kind in $ALONE; do EXPORT=/$kind mount_over "$how" "$at.$kind"; done
		mounts+=" $at"
	done
	# shellcheck disable=SC2086
	"$WORKER" held "$round" "$SHARED" $mounts || fail "round $round"
	event "checked-$round"
	for at in $mounts; do
		# A mount within it may end by itself meanwhile.
		waiting_for 60 unmounted "$at"
		for kind in $ALONE; do must umount "$at.$kind"; done
	done
	await "next-$round"
done
step "$rounds rounds"
