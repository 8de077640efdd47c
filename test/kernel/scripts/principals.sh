# principals SUITE: run TestPrincipals of test/nfs4suite against Linux's own server in this guest. SUITE is the test
# program. With a realm, the server accepts Kerberos as well as AUTH_SYS.
mkdir -p /srv/principals
must mount -t tmpfs -o mode=0777 memory /srv/principals
must cp "$1" /srv/suite # kerberos_client hides /tmp
[ -z "$REALM_CONF" ] || kerberos_client
SYNC=sync,sec=sys${REALM_CONF:+:krb5i} kernel_server /srv/principals
[ -z "$REALM_CONF" ] || must rpc.svcgssd
waiting_for 120 listening 2049
must /srv/suite -test.run '^TestPrincipals$/^linux' -test.v -linux 127.0.0.1:2049 ${REALM_CONF:+-linux-name "$CLIENT_NAME"}
