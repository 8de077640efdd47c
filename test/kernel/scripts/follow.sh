# follow BYTES [knfsd]: follow logs on mounts of versions 3 and 4.2, with the usual time for which a client keeps
# attributes and with none, while the test writes and rotates them on the server. With knfsd, the server is Linux's own
# in this guest.
if [ "$2" = knfsd ]; then
	mkdir -p /srv/logs
	must mount -t tmpfs memory /srv/logs
	kernel_server /srv/logs
	SERVER=$ADDRESS EXPORT=/srv/logs MOUNT_PORT=20048
	"$WORKER" logs /srv/logs /tmp/stop &
fi
dirs=
for how in tcp tcp/4.2; do
	[ "$2$how" != knfsdtcp/4.2 ] || EXPORT=/
	for options in "" actimeo=0; do
		at=/mnt/${how//\//-}-${options:-usual}
		mount_over "$how" "$at" "nosharecache${options:+,$options}"
		dirs+=" $at"
	done
done
event mounted
# shellcheck disable=SC2086
"$WORKER" follow "$1" $dirs || fail "a reader"
for at in $dirs; do must umount "$at"; done
