package nfs3wire

import (
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// The enums have the same values and names as those of go-xdr, an independent implementation.
func TestEnums(t *testing.T) {
	for name, difference := range map[string]string{
		"nfsstat3":    xdrtest.SameNames(namesNFSStat3, nfsv3.Nfsstat3_name),
		"ftype3":      xdrtest.SameNames(namesFType3, nfsv3.Ftype3_name),
		"time_how":    xdrtest.SameNames(namesTimeHow, nfsv3.TimeHow_name),
		"stable_how":  xdrtest.SameNames(namesStableHow, nfsv3.StableHow_name),
		"createmode3": xdrtest.SameNames(namesCreateMode3, nfsv3.Createmode3_name),
	} {
		if difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

// The constants have the same values as those of go-xdr.
func TestConstants(t *testing.T) {
	for name, c := range map[string][2]uint32{
		"program":            {Program, nfsv3.NFS_PROGRAM_PROGRAM_NUMBER},
		"version":            {Version, 3},
		"handle":             {FileHandleSize, nfsv3.NFS3_FHSIZE},
		"cookie verifier":    {CookieVerfSize, nfsv3.NFS3_COOKIEVERFSIZE},
		"create verifier":    {CreateVerfSize, nfsv3.NFS3_CREATEVERFSIZE},
		"write verifier":     {WriteVerfSize, nfsv3.NFS3_WRITEVERFSIZE},
		"ACCESS read":        {Access3Read, nfsv3.ACCESS3_READ},
		"ACCESS lookup":      {Access3Lookup, nfsv3.ACCESS3_LOOKUP},
		"ACCESS modify":      {Access3Modify, nfsv3.ACCESS3_MODIFY},
		"ACCESS extend":      {Access3Extend, nfsv3.ACCESS3_EXTEND},
		"ACCESS delete":      {Access3Delete, nfsv3.ACCESS3_DELETE},
		"ACCESS execute":     {Access3Execute, nfsv3.ACCESS3_EXECUTE},
		"FSINFO link":        {FSF3Link, nfsv3.FSF3_LINK},
		"FSINFO symlink":     {FSF3Symlink, nfsv3.FSF3_SYMLINK},
		"FSINFO homogeneous": {FSF3Homogeneous, nfsv3.FSF3_HOMOGENEOUS},
		"FSINFO set time":    {FSF3CanSetTime, nfsv3.FSF3_CANSETTIME},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, not %d", name, c[0], c[1])
		}
	}
}

// The numbers of the procedures are those of RFC 1813 §3.
func TestProcedureNumbers(t *testing.T) {
	for number, p := range []Procedure{
		ProcNull, ProcGetattr, ProcSetattr, ProcLookup, ProcAccess, ProcReadlink, ProcRead, ProcWrite,
		ProcCreate, ProcMkdir, ProcSymlink, ProcMknod, ProcRemove, ProcRmdir, ProcRename, ProcLink,
		ProcReaddir, ProcReaddirPlus, ProcFsstat, ProcFsinfo, ProcPathconf, ProcCommit,
	} {
		if p != Procedure(number) {
			t.Errorf("%v is %d, not %d", p, p, number)
		}
	}
}
