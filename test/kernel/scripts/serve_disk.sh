# serve_disk IMAGE LEDGERS OPTIONS: check after a boot that the disk has everything that the ledgers record as
# acknowledged, then serve the disk until the test kills the guest.
mkdir -p /srv/disk
# commit=300 makes ext4 write its journal only when a program syncs, so that data that was not synced is really lost.
must mount -o loop,commit=300 "$1" /srv/disk
if [ -n "$(ls "$2")" ]; then
	must "$WORKER" check /srv/disk/work/load "$2"
else
	mkdir -p /srv/disk/work /srv/disk/state
	sync
fi
if [ -n "$PEER" ]; then
	SYNC=$3 kernel_server /srv/disk/work
else
	"$DAEMON" serve --export "/srv/disk/work:/work,rw,no_root_squash,$3" --state-dir /srv/disk/state \
		--rdma "$ADDRESS:20049" --tcp "$ADDRESS:2049" &
	waiting_for 120 listening 20049
	waiting_for 120 listening 2049
fi
event serving
await stop
