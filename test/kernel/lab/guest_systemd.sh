# The end of the boot script of a guest with systemd, in which systemd becomes process 1. It runs the rest, with the
# test's script, as a service.
export -p >environment
cd /
unpack_systemd
forget
rm -f .dockerenv # by this file systemd believes that it runs in a container
# The console belongs to the script, the network interface keeps its name, and what takes long under emulation is left
# out.
for unit in serial-getty@ttyS0 systemd-udev-trigger ldconfig systemd-tmpfiles-setup systemd-binfmt systemd-logind; do
	ln -s /dev/null etc/systemd/system/$unit.service
done
cat >etc/systemd/system/lab.service <<END
[Unit]
After=multi-user.target
[Service]
ExecStart=/bin/bash -c 'cd $SHARED; . ./environment; . ./rest'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
END
mkdir etc/systemd/system/multi-user.target.wants
ln -s ../lab.service etc/systemd/system/multi-user.target.wants
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target --log-target=journal --show-status=no
