package mount3wire

import (
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// The numbers are the same as those of go-xdr, an independent implementation.
func TestNumbers(t *testing.T) {
	if difference := xdrtest.SameNames(namesStat3, mount.Mountstat3_name); difference != "" {
		t.Error(difference)
	}
	for name, c := range map[string][2]uint32{
		"program": {Program, mount.MOUNT_PROGRAM_PROGRAM_NUMBER},
		"version": {Version, 3},
		"path":    {PathLen, mount.MNTPATHLEN},
		"name":    {NameLen, mount.MNTNAMLEN},
		"handle":  {FileHandleSize, mount.FHSIZE3},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, not %d", name, c[0], c[1])
		}
	}
	// The numbers of the procedures are those of RFC 1813 §5.2.
	for number, p := range []Procedure{ProcNull, ProcMnt, ProcDump, ProcUmnt, ProcUmntall, ProcExport} {
		if p != Procedure(number) {
			t.Errorf("%v is %d, not %d", p, p, number)
		}
	}
}
