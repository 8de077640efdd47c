# The first program of a Machine, in namespaces of its own: makes the root $ROOT writable in memory, unpacks $DEBS
# over it, binds the folders that the arguments name, and becomes systemd.
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 memory /mnt
mkdir /mnt/changes /mnt/work /mnt/root
mount -t overlay -o lowerdir="$ROOT",upperdir=/mnt/changes,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
unpack_systemd

# As container managers do, let the processes change nothing of this machine's kernel.
mount -t proc -o nosuid,nodev,noexec proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t tmpfs -o mode=755 devices dev
mkdir dev/pts dev/shm
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
	IFS=: read -r name major minor <<<"$device"
	mknod -m 666 "dev/$name" c "$major" "$minor"
done
mount -t devpts -o newinstance,ptmxmode=666,mode=620 terminals dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 memory dev/shm
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "dev/${n#*:}"; done
ln -s /proc/self/fd dev/fd

forget tmp var/tmp
chmod 1777 tmp var/tmp
for folder; do
	mkdir -p ".$folder"
	mount --bind "$folder" ".$folder"
done
mkdir run/below
pivot_root . run/below

# Mounts that are made later spread to the services' own mount namespaces, as on a booted machine.
exec /run/below/usr/bin/unshare --cgroup /bin/bash -ec '
	mount -t cgroup2 groups /sys/fs/cgroup
	umount -l /run/below
	mount --make-rshared /
	exec setpriv --bounding-set -sys_module,-sys_time,-sys_boot,-sys_rawio,-syslog --inh-caps=-all \
		env -i container=nfsrdmad-lab PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --unit=multi-user.target --log-target=journal --show-status=no'
