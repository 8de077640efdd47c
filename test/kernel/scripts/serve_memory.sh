# serve_memory: run Linux's own server on a file system in memory, over siw, until the test says stop.
mkdir -p /srv/memory
must mount -t tmpfs -o size=300m memory /srv/memory
chmod 777 /srv/memory
kernel_server /srv/memory
waiting_for 20 listening 20048
greet "$SERVER"
event serving
await stop
[ -z "$(ls -A /srv/memory)" ] || fail "left behind: $(ls -A /srv/memory)"
