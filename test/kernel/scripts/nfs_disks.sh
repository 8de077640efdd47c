# Linux's own server in this guest offers three disks, $ADDRESS:/1 to 3, which have files with the same inode numbers.
mkdir -p /srv
must mount -t tmpfs memory /srv
kernel_server /srv
for i in 1 2 3; do
	mkdir "/srv/$i"
	truncate -s 64M "/tmp/$i"
	must mkfs.ext4 -q "/tmp/$i"
	must mount -o loop "/tmp/$i" "/srv/$i"
	must exportfs -i -o "rw,sync,insecure,no_root_squash,no_subtree_check,fsid=$i" "*:/srv/$i"
	echo "of disk $i" >"/srv/$i/read"
	echo "of disk $i" >"/srv/$i/written"
done
equal "$(stat -c %i /srv/2/read /srv/2/written)" "$(stat -c %i /srv/1/read /srv/1/written)" "inode numbers of disk 2, beside those of disk 1"
