# sparse HOW: read files with holes, and compare them with their checksums. Print how often the client sent READ_PLUS.
mount_over "$1" /mnt/n
read_plus() { sed -n 's/^[[:space:]]*READ_PLUS: \([0-9]*\).*/\1/p' /proc/self/mountstats; }
if [ "$1" = tcp/4.2 ]; then
	# The first file is 1 MiB long. If a reply is longer than the client's room, some kernels report an error, and
	# others read a part again.
	must dd if=/mnt/n/file-0000 of=/dev/null iflag=direct bs=96k status=none
	equal "$(read_plus)" 12 "READ_PLUS: one for each of 11 blocks, and one at the end"
fi
"$WORKER" sparse /mnt/n || fail "the files differ"
used=$(read_plus)
must umount /mnt/n
echo "READ_PLUS: ${used:-0}"
