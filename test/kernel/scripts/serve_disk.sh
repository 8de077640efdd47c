# serve_disk IMAGE LEDGERS OPTIONS: after a boot, look on the disk for everything that the ledgers call acknowledged, then
# serve it until the power goes.
mkdir -p /srv/disk
# The journal is written when a program asks for it, and not by the clock: what was not synced is really lost.
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
