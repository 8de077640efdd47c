# serve_knfsd IMAGE: run Linux's own server on the ext4 file system in a disk image, until the test says stop.
mkdir -p /srv/disk
must mount -o loop "$1" /srv/disk
[ ! -d /srv/disk/lost+found ] || must rmdir /srv/disk/lost+found
kernel_server /srv/disk
event serving
await stop
