# serve_devices PROGRAM OPTIONS...: the daemon on this guest's RDMA device, until the test says stop; in between the
# scenes that the test names, one after the other. Where KRB5_CONFIG is set, callers may use Kerberos.
program=$1; shift
options=("$@")
security=sys
if [ -n "$KRB5_CONFIG" ]; then
	realm_users
	security=sys:krb5p
fi
software_rdma
device=${RDMA_DEVICE}0
ulimit -l unlimited
mkdir -p /srv/work /tmp/state
must mount -t tmpfs tmpfs /srv/work
mkdir /srv/work/{0..7}

start() {
	rm -f "$SHARED/log"
	"$program" serve --state-dir /tmp/state --export /srv/work:/work,rw,insecure,no_root_squash,sec=$security "${options[@]}" >"$SHARED/log" 2>&1 &
	daemon=$!
	until grep -qs "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
}

# removed: rdma(8) returns when nothing of the device is open any more.
removed() { ! kill -0 $removing 2>/dev/null; }

# remove: the device goes, and comes back.
remove() {
	local begun=$(cut -d' ' -f1 /proc/uptime)
	rdma link delete $device & removing=$!
	waiting_for 30 removed
	wait $removing || fail "rdma link delete: status $?"
	step "rdma link delete took $(echo "$(cut -d' ' -f1 /proc/uptime) - $begun" | bc) s"
	waiting_for 30 grep -q "RDMA device $device is gone" "$SHARED/log"
	must rdma link add $device type "$RDMA_DEVICE" netdev "$NIC"
}

# down: the link is, for so many seconds; its port too. The device and its objects stay.
down() { ip link set "$NIC" down; sleep "$1"; ip link set "$NIC" up; }
down2() { down 2; }
down20() { down 20; }

# killed: the daemon is, and another takes its place.
killed() { kill -9 $daemon; wait $daemon; start; }

# holdings: the objects of the device that the kernel has, and the daemon's descriptors.
holdings() { echo "$(rdma resource show), $(ls /proc/$daemon/fd | wc -l) descriptors"; }

# remember what the daemon has without a connection. as_before: it has that again, within a minute.
alone() { rdma resource show | grep -q "mr 0"; }
steady() { remembered=$(holdings); sleep 0.1; unchanged; }
unchanged() { [ "$(holdings)" = "$remembered" ]; }
remember() { waiting_for 30 alone; waiting_for 30 steady; step "$remembered"; }
as_before() { step "$(holdings)"; waiting_for 60 unchanged; step "$(holdings)"; }

start
event serving
scene=1
until [ -e "$SHARED/signal.stop" ]; do
	for f in "$SHARED"/signal.$scene.*; do
		[ -e "$f" ] || continue
		step "${f##*.}"
		"${f##*.}"
		event $scene
		scene=$((scene + 1))
	done
	sleep 0.1
done
kill $daemon; wait $daemon; status=$?
cat "$SHARED/log"
equal $status 0 "the daemon's exit status"
rdma resource
rdma resource show | grep -q "cm_id 0 mr 0" || fail "the daemon left objects of the device behind"
