#!/bin/busybox sh
# The first program of a stock kernel: loads what its root needs, makes this machine's root writable in memory, and
# hands over to the boot script in the folder that the guest shares with the test.
for f in proc sysfs devtmpfs; do
	case $f in sysfs) d=/sys;; devtmpfs) d=/dev;; *) d=/$f;; esac
	/bin/busybox mount -t $f $f $d
done
while read -r module; do /bin/busybox insmod "/modules/$module"; done </modules/order
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro machine /below
/bin/busybox mount -t tmpfs memory /above
/bin/busybox mkdir /above/changes /above/work
/bin/busybox mount -t overlay -o lowerdir=/below,upperdir=/above/changes,workdir=/above/work overlay /root
/bin/busybox mkdir -p /root/nfsrdmad
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 shared /root/nfsrdmad
for d in proc sys dev; do /bin/busybox mkdir -p /root/$d; /bin/busybox mount --move /$d /root/$d; done
exec /bin/busybox switch_root /root /bin/bash /nfsrdmad/boot
