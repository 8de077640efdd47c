# serve_devices COMMAND...: run the daemon by this command on this guest's RDMA device until the test says stop.
# Meanwhile run the functions that the test names as scenes, one after the other. If KRB5_CONFIG is set, clients may
# use Kerberos. If FIRST_MODULE is set, load that module before all others of RDMA.
command=("$@")
[ -z "$KRB5_CONFIG" ] || realm_users
[ -z "$FIRST_MODULE" ] || module "$FIRST_MODULE"
software_rdma
device=${RDMA_DEVICE}0
ulimit -l unlimited
mkdir -p /srv/work /tmp/state
must mount -t tmpfs tmpfs /srv/work
mkdir /srv/work/{0..7}

start() {
	rm -f "$SHARED/log"
	( [ -z "$descriptors" ] || ulimit -n "$descriptors"; exec "${command[@]}" ) >"$SHARED/log" 2>&1 &
	daemon=$!
	until grep -qs "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
}

# removed: succeed if `rdma link delete` has returned, which it does when no process has the device open.
removed() { ! kill -0 $removing 2>/dev/null; }

# remove: remove the device and add it again.
remove() {
	local begun=$(cut -d' ' -f1 /proc/uptime)
	rdma link delete $device & removing=$!
	waiting_for 30 removed
	wait $removing || fail "rdma link delete: status $?"
	step "rdma link delete took $(echo "$(cut -d' ' -f1 /proc/uptime) - $begun" | bc) s"
	waiting_for 30 grep -q "RDMA device $device is gone" "$SHARED/log"
	must rdma link add $device type "$RDMA_DEVICE" netdev "$NIC"
}

# down SECONDS: take the link down, and with it the port of the device. The device and its objects remain.
down() { ip link set "$NIC" down; sleep "$1"; ip link set "$NIC" up; }
down2() { down 2; }
down20() { down 20; }

# killed: kill the daemon and start another one.
killed() { kill -9 $daemon; wait $daemon; start; }

# descriptors460, ...: end the daemon, and start one that can open only so many files.
limited() { kill $daemon; wait $daemon; equal $? 0 "the daemon's exit status"; descriptors=$1; start; }
descriptors460() { limited 460; }
descriptors512() { limited 512; }
descriptors1024() { limited 1024; }

# lives: fail unless the daemon still runs. Print its holdings while clients press it.
lives() { kill -0 $daemon || { cat "$SHARED/log"; fail "the daemon has ended"; }; step "of $descriptors descriptors: $(holdings)"; }

# holdings: print the kernel's objects of the device and the number of the daemon's descriptors.
holdings() { echo "$(rdma resource show), $(ls /proc/$daemon/fd | wc -l) descriptors"; }

# remember: store the daemon's holdings when it has no connection. as_before: wait up to a minute until the holdings
# are the same again.
alone() { rdma resource show | grep -q "mr 0"; }
steady() { remembered=$(holdings); sleep 0.1; unchanged; }
unchanged() { [ "$(holdings)" = "$remembered" ]; }
remember() { waiting_for 30 alone; waiting_for 30 steady; step "$remembered"; }
as_before() { step "$(holdings)"; waiting_for 60 unchanged; step "$(holdings)"; }

# goroutines: make the daemon print the stacks of all its goroutines, which ends it, print their number, and start
# another daemon.
goroutines() {
	kill -QUIT $daemon; wait $daemon
	cp "$SHARED/log" "/tmp/stacks.$1"
	counted=$(grep -c '^goroutine ' "/tmp/stacks.$1")
	step "$counted goroutines"
	start
}

# count_goroutines, same_goroutines: compare the numbers of goroutines of two daemons that have had connections.
count_goroutines() { goroutines before; goroutines_before=$counted; }
same_goroutines() {
	goroutines after
	[ "$counted" = "$goroutines_before" ] || { cat /tmp/stacks.before /tmp/stacks.after; fail "$goroutines_before goroutines before"; }
}

# connected: succeed if the daemon has a connection. serves: fail unless it has one. forgets: wait until it has none.
connected() { rdma resource show qp | grep -q "type RC"; }
disconnected() { ! connected; }
serves() { connected || fail "no connection: $(rdma resource show qp)"; }
forgets() { waiting_for 120 disconnected; step "no connection is left"; }

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
