# stress rdma|tcp: run each stressor for one second, one after the other.
mount_over "$1" /mnt/n
cd /mnt/n
for stressor in access chdir chmod chown dentry dir dirdeep dirmany fcntl filename fpunch fstat getdent hdd iomix link mmap open readahead rename revio seek sendfile symlink sync-file touch utime; do
	case $stressor in
		dirdeep) extra="--dirdeep-dirs 2 --dirdeep-inodes 2000";;
		hdd|iomix|readahead|mmap) extra="--$stressor-bytes 16m";;
		seek) extra="--seek-size 16m";;
		dentry) extra="--dentries 500";;
		*) extra="";;
	esac
	out=$(timeout 60 stress-ng --"$stressor" 1 $extra --timeout 1 --temp-path /mnt/n --verify --no-rand-seed 2>&1)
	status=$?
	# stress-ng exits with 3 if resources are missing and with 4 if the stressor is not implemented here. It calls
	# both "skipped".
	case $status in 0) ;; 3|4) step "$stressor skipped: $(echo "$out" | grep -i -m1 -e skipp -e 'not ')";; *) echo "$out"; fail "$stressor: status $status";; esac
done
equal "$(ls -A /mnt/n)" "" "what is left"
cd /; must umount /mnt/n
