# principals SUITE: Linux's own server in this guest, and the program of test/nfs4suite that asks it who may use what is open.
mkdir -p /srv/principals
must mount -t tmpfs -o mode=0777 memory /srv/principals
kernel_server /srv/principals
waiting_for 120 listening 2049
must "$1" -test.run '^TestPrincipals$/^linux$' -test.v -linux 127.0.0.1:2049
