# handles_nfs PROGRAM: after nfs_disks, run the tests of vfs/local of what handles lead to on mounts of NFS.
for how in "vers=3,nolock,mountproto=tcp,mountport=20048 /srv" "vers=4.2,clientaddr=$ADDRESS "; do
	options=proto=tcp,addr=$ADDRESS,${how%% *} at=$ADDRESS:${how#* }
	step "$options"
	NFSRDMAD_TEST_NFS="$options $at/1 $at/2 $at/3" \
		"$1" -test.v -test.timeout 10m -test.run 'TestHandlesOfEachKindOfFileSystem/^NFS$' | tee /tmp/said
	grep -q -- '--- PASS: TestHandlesOfEachKindOfFileSystem/NFS' /tmp/said || fail "the test did not pass"
done
