# press CONNECTOR COUNT FIRST: strangers at five addresses of this guest open up to COUNT connections each, to the five
# addresses of the server from 10.0.3.FIRST on, until the test says "leave". Meanwhile this guest mounts the export.
software_rdma
ulimit -l unlimited
ulimit -n 8192
servers=
for i in 0 1 2 3 4; do
	must ip addr add 10.0.2.$((100 + i))/32 dev "$NIC"
	must ip route add 10.0.3.$(($3 + i))/32 dev "$NIC" src 10.0.2.$((100 + i))
	greet 10.0.3.$(($3 + i))
	servers+=,10.0.3.$(($3 + i)):20049
done
"$1" "${servers#,}" "$2" press >/tmp/pressure &
strangers=$!
waiting_for 500 grep -q tried /tmp/pressure
mount_over rdma /mnt/n
echo "among strangers" >/mnt/n/file || fail "the export cannot be written"
must umount /mnt/n
kill -0 $strangers || fail "the strangers have gone"
event pressed
await leave
kill -9 $strangers
step "$(cat /tmp/pressure)"
