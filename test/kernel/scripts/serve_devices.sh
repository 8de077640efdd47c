# serve_devices PROGRAM OPTIONS...: the daemon on this guest's RDMA device, until the test says stop; in between the
# scenes that the test names, one after the other.
program=$1; shift
options=("$@")
software_rdma
device=${RDMA_DEVICE}0
ulimit -l unlimited
mkdir -p /srv/work /tmp/state
must mount -t tmpfs tmpfs /srv/work
mkdir /srv/work/{0..7}

start() {
	"$program" serve --state-dir /tmp/state --export /srv/work:/work,rw,insecure,no_root_squash "${options[@]}" >"$SHARED/log" 2>&1 &
	daemon=$!
	until grep -q "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
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
