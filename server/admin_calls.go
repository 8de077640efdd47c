package server

import (
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/server/admin"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// waits has the name that an admin.Call has for each rpc.Wait.
var waits = map[rpc.Wait]string{rpc.WaitUnknown: "unknown", rpc.WaitUser: "user", rpc.WaitState: "state", rpc.WaitTurn: "turn"}

// Calls implements admin.Daemon.
func (a *administration) Calls() []*admin.Call {
	all := []*admin.Call{}
	for _, c := range a.rpc.Calls() {
		d := &admin.Call{More: c.More}
		switch c.Stage {
		case rpc.Executing:
			d.Waits, d.Exports = "disk", a.exports.Names(c.Lane)
		case rpc.Queued:
			d.Waits, d.Exports = "thread", a.exports.Names(c.Lane)
		default:
			d.Waits = waits[c.Wait]
		}
		if all = append(all, d); c.More > 0 {
			continue
		}
		d.Client, d.Transport, d.XID = c.Conn.Peer.String(), c.Conn.Transport, c.XID
		d.Program, d.Version, d.Operation, d.Since, d.Stage = programName(c.Program), c.Version, c.Name, c.First, c.Since
		d.File = a.fileOfCall(&c)
		if c.Program == nfs4wire.Program && c.Version == nfs4wire.Version && c.Part != 0 {
			d.Operation = strings.TrimPrefix(nfs4wire.OpNum(c.Part).String(), "OP_")
		}
	}
	return all
}

// fileOfCall returns the file that a call is about, or nil: of NFSv3 that of the handle in its arguments, of NFSv4 the
// current object of its operation.
func (a *administration) fileOfCall(c *rpc.CallInProgress) *admin.File {
	if o, ok := c.Subject.(*export.Opened); ok && o != nil {
		f := a.file(&state.FileKey{Domain: state.DomainOf(o.Export.FS), Handle: o.Handle}, o.Export.ID)
		return &f
	}
	h, ok := vfs.MakeHandle(c.Object)
	e := a.exports.Table.ByID(c.Group)
	if !ok || e == nil {
		return nil
	}
	f := a.file(&state.FileKey{Domain: state.DomainOf(e.FS), Handle: h}, e.ID)
	return &f
}
