package nlm

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Program serves the Network Lock Manager version 4.
type Program struct {
	nfs.Service
	exports *export.Table
	state   *state.Manager
	granter granter
}

// Config is the configuration of a Program. Exports and State must be set.
type Config struct {
	Exports *export.Table
	State   *state.Manager
	// Dial returns a Dialer that connects from this local address. With it the server tells hosts that the locks for
	// which they wait are granted. If it is nil, hosts have to ask again.
	Dial func(from netip.Addr) rpc.Dialer
	// Machine is the server's host name. Its calls to hosts have it.
	Machine string
}

// New returns a Program.
func New(cfg Config) *Program {
	p := &Program{
		Service: nfs.Service{Program: wire.Program, Version: wire.Version, Procedures: &nfs.BindingNLM4},
		exports: cfg.Exports, state: cfg.State,
	}
	p.granter.begin(p, &cfg)
	return p
}

// Close cancels the calls to hosts, and waits until they have ended. It waits for no file system.
func (p *Program) Close() { p.granter.end() }

// Judge admits every call, because each refusal has a status of its own, which needs the call's cookie. It says for
// which file system the call may wait.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if j.Object == nil {
		return rpc.Done
	}
	if o, err := p.exports.Find(j.Object); err == nil {
		j.Known, j.Lane = p.exports.Knows(o, a.Conn, &a.Cred), o.Export.FS.Lane()
	}
	return rpc.Done
}

// Serve runs one procedure.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch wire.Procedure(c.Header.Procedure) {
	case wire.ProcTest:
		return answered(p, c, w, (*request).test, testRes)
	case wire.ProcLock, wire.ProcNmLock:
		return answered(p, c, w, (*request).lockFile, res)
	case wire.ProcCancel:
		return answered(p, c, w, (*request).cancel, res)
	case wire.ProcUnlock:
		return answered(p, c, w, (*request).unlock, res)
	case wire.ProcShare:
		return answered(p, c, w, (*request).share, shareRes)
	case wire.ProcUnshare:
		return answered(p, c, w, (*request).unshare, shareRes)
	case wire.ProcFreeAll:
		return p.freeAll(c)
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

func res(r *request, w *xdr.Writer, stat wire.Stat4) {
	(&wire.Res4{Cookie: r.cookie, Stat: stat}).Encode(w)
}

func testRes(r *request, w *xdr.Writer, stat wire.Stat4) {
	(&wire.TestRes4{Cookie: r.cookie, Reply: wire.TestReply4{Stat: stat, Holder: r.holder}}).Encode(w)
}
