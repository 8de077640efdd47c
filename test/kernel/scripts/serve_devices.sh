# serve_devices PROGRAM OPTIONS...: the daemon on this guest's RDMA device, until the test says stop.
program=$1; shift
software_rdma
ulimit -l unlimited
mkdir -p /srv/work /tmp/state
must mount -t tmpfs tmpfs /srv/work
mkdir /srv/work/{0..7}
"$program" serve --state-dir /tmp/state --export /srv/work:/work,rw,insecure,no_root_squash "$@" >"$SHARED/log" 2>&1 &
daemon=$!
until grep -q "serving.*exports" "$SHARED/log"; do kill -0 $daemon 2>/dev/null || { cat "$SHARED/log"; fail "the daemon did not start"; }; sleep 0.1; done
event serving
await stop
kill $daemon; wait $daemon; status=$?
cat "$SHARED/log"
equal $status 0 "the daemon's exit status"
rdma resource
rdma resource show | grep -q "cm_id 0 mr 0" || fail "the daemon left objects of the device behind"
