package mount3_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
)

// guests is a Protection for RPCSEC_GSS: each caller is a principal without an account.
type guests struct{}

func (guests) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	a.Cred.Principal, a.Cred.GSS, a.Cred.Anonymous = "guest@TEST", rpc.GSSIntegrity, true
	return nil, rpc.Done
}

// MNT gives a principal without an account no handle of an export with RequireAccount.
func TestMntWithoutAccount(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m, &export.Export{Name: "/strict", Options: export.Options{RequireAccount: true}}, &export.Export{Name: "/open"})
		s.rpc.Protect(rpc.AuthGSS, guests{})
		var why []export.Reason
		s.table.OnRefusal = func(r *export.Refusal) { why = append(why, r.Reason) }
		for path, want := range map[string]wire.Stat3{"/strict": wire.ErrAccess, "/open": wire.OK} {
			s.xid++
			h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcMnt), Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS}}
			c := rpctest.NewCall(s.conn, rpctest.CallMessage(h, func(w *xdr.Writer) { w.String(path) }))
			c.Space = s.room
			d, err := c.Run(s.rpc).Results()
			if err != nil {
				t.Fatal(err)
			}
			if got := wire.Stat3(d.Uint32()); got != want {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
			if got := s.mnt(path); got.Status != wire.OK {
				t.Errorf("%s under AUTH_SYS: %v", path, got.Status)
			}
		}
		if len(why) != 1 || why[0] != export.NoAccount {
			t.Errorf("refused for %v", why)
		}
	})
}

// On a secure export, MNT needs a privileged port only from callers without Kerberos. A caller
// with a Kerberos flavor that the export does not accept also gets the handle.
func TestMntFromAPortOfCallersWithKerberos(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m, &export.Export{Name: "/secure", Options: export.Options{Secure: true}, Security: []export.Security{export.Krb5p}})
		s.rpc.Protect(rpc.AuthGSS, guests{})
		s.mkdir("public", 0o755)
		s.from("10.0.0.1:40000", false)
		for _, path := range []string{"/secure", "/secure/public"} {
			s.xid++
			h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcMnt), Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS}}
			c := rpctest.NewCall(s.conn, rpctest.CallMessage(h, func(w *xdr.Writer) { w.String(path) }))
			c.Space = s.room
			d, err := c.Run(s.rpc).Results()
			if err != nil {
				t.Fatal(err)
			}
			if got := wire.Stat3(d.Uint32()); got != wire.OK {
				t.Errorf("%s with Kerberos: %v", path, got)
			}
			if got := s.mnt(path); got.Status != wire.ErrAccess {
				t.Errorf("%s under AUTH_SYS: %v", path, got.Status)
			}
		}
	})
}
