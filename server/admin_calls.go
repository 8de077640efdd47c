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
var waits = map[rpc.Wait]string{
	rpc.WaitUnknown: "unknown", rpc.WaitUser: "user", rpc.WaitState: "state", rpc.WaitTurn: "turn",
	rpc.WaitMemory: "memory", rpc.WaitGrace: "grace", rpc.WaitShare: "share",
}

// waitsFor returns what a call waits for, in the words of an admin.Call.
func waitsFor(s rpc.Stage, w rpc.Wait) string {
	switch s {
	case rpc.Executing:
		return "disk"
	case rpc.Queued:
		return "thread"
	}
	return waits[w]
}

// Calls implements admin.Daemon.
func (a *administration) Calls() []*admin.Call {
	all := []*admin.Call{}
	grace := a.clients.InGrace()
	for _, c := range a.rpc.Calls() {
		if c.Stage == rpc.PutOff && c.Wait == rpc.WaitGrace && !grace {
			continue
		}
		d := &admin.Call{More: c.More, Waits: waitsFor(c.Stage, c.Wait), Again: c.Stage == rpc.PutOff}
		if c.Stage == rpc.Executing || c.Stage == rpc.Queued {
			d.Exports = a.exports.Names(c.Lane)
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
	return append(append(all, a.lockWaits()...), a.callbackWaits()...)
}

// mostWaits is the largest number of owners that wait for locks, and of hosts that do not answer, in the list of calls.
const mostWaits = 256

// lockWaits returns an entry for each owner that waits for a lock. The server has answered its call.
func (a *administration) lockWaits() (all []*admin.Call) {
	for e := range a.clients.Waiting() {
		if len(all) == mostWaits {
			break
		}
		f := a.file(&e.Key, e.Export)
		d := &admin.Call{Client: e.Client.Address().String(), File: &f, Since: e.Asked, Stage: e.Asked, Waits: "lock", Again: true}
		nameLock(d, e.Client)
		if e.By != nil {
			by := a.holder(e.By, e.ByOwner)
			d.By = &by
		}
		all = append(all, d)
	}
	return all
}

// callbackWaits returns an entry for each lock that was granted to a host which does not answer the server's call.
func (a *administration) callbackWaits() (all []*admin.Call) {
	if a.nlm == nil {
		return nil
	}
	for _, u := range a.nlm.Untold() {
		if len(all) == mostWaits {
			break
		}
		f := a.file(&u.Ref.Key, u.Ref.Export)
		d := &admin.Call{Client: u.Host.Address().String(), File: &f, Since: u.Since, Stage: u.Since, Waits: "callback", Again: true}
		nameLock(d, u.Host)
		all = append(all, d)
	}
	return all
}

// nameLock names the call with which a client asked for a lock.
func nameLock(d *admin.Call, c *state.Client) {
	d.Program, d.Version, d.Operation = "nfs", 4, "LOCK"
	if c.Kind == state.Host {
		d.Program, d.Version = "nlm", 4
	}
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
