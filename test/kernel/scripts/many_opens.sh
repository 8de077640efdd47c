# many_opens COUNT LIMIT opened|refused: serve 50 exports with this limit of open files, and open COUNT files of one of
# them.
must mount -t tmpfs -o nr_inodes=400k memory /srv
exports=()
for i in $(seq 0 49); do
	mkdir "/srv/e$i"
	exports+=(--export "/srv/e$i:/e$i,rw,no_root_squash,async")
done
step "making files"
must "$WORKER" files /srv/e7 "$1"
(
	ulimit -n "$2" || fail "the limit of open files"
	exec "$DAEMON" serve "${exports[@]}" --state-dir /srv/state --tcp "$ADDRESS:2049" --rdma none >/srv/log 2>&1
) &
daemon=$!
listening_or_ended() { listening 2049 || ! kill -0 $daemon 2>/dev/null; }
waiting_for 600 listening_or_ended
kill -0 $daemon 2>/dev/null || fail "the daemon: $(cat /srv/log)"
memory() { grep VmRSS /proc/$daemon/status | tr -s '\t ' ' '; }
SERVER=$ADDRESS
for export in e7 e9; do
	(EXPORT=/$export mount_over tcp/4.2 /mnt/$export) || fail "the daemon said: $(cat /srv/log)"
done
before=$(memory)
step "opening"
(ulimit -n 1048576; exec "$WORKER" opens /mnt/e7 "$1" /mnt/e9 "$3") >/srv/opens &
opens=$!
until [ -s /srv/opens ]; do kill -0 $opens 2>/dev/null || break; sleep 0.2; done
echo "memory: $before before, $(memory) with the files open; $(ls /proc/$daemon/fd | wc -l) descriptors"
wait $opens || fail "opens: $(cat /srv/opens)
$(tail -5 /srv/log)"
cat /srv/opens
if [ "$3" = refused ]; then
	grep -i warn /srv/log || fail "the log does not tell of the limit: $(cat /srv/log)"
fi
umount /mnt/e7 /mnt/e9
kill $daemon; wait $daemon || fail "the daemon: $(tail -20 /srv/log)"
