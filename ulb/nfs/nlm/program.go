package nlm

import (
	"net/netip"
	"sync/atomic"

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
	// messages are the calls with _MSG that hosts may repeat.
	messages correspondence
	// unproven counts the hosts that have only sent datagrams.
	unproven atomic.Int32
}

// Config is the configuration of a Program. Exports and State must be set.
type Config struct {
	Exports *export.Table
	State   *state.Manager
	// Dial returns a Dialer that connects from this local address. With it the server tells hosts that the locks for
	// which they wait are granted. If it is nil, hosts have to ask again.
	Dial func(from netip.Addr) rpc.Dialer
	// Send sends a call from the server's UDP socket at an address that a host has called, to a port of that host. It
	// does not block. If it is nil, hosts that call by _MSG over UDP get no results.
	Send func(from, to netip.AddrPort, message []byte)
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
	d := dialectOf(c.Header.Version)
	switch wire.Procedure(c.Header.Procedure) {
	case wire.ProcTest, wire.ProcTestMsg:
		return answered(p, c, w, d.test, (*request).test, testRes)
	case wire.ProcLock, wire.ProcNmLock, wire.ProcLockMsg:
		return answered(p, c, w, d.lock, (*request).lockFile, res)
	case wire.ProcCancel, wire.ProcCancelMsg:
		return answered(p, c, w, d.cancel, (*request).cancel, res)
	case wire.ProcUnlock, wire.ProcUnlockMsg:
		return answered(p, c, w, d.unlock, (*request).unlock, res)
	case wire.ProcGrantedRes:
		return p.grantedRes(c)
	case wire.ProcShare:
		return answered(p, c, w, decodeShare, (*request).share, shareRes)
	case wire.ProcUnshare:
		return answered(p, c, w, decodeShare, (*request).unshare, shareRes)
	case wire.ProcFreeAll:
		return p.freeAll(c)
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

func res(r *request, w *xdr.Writer, stat wire.Stat4) {
	(&wire.Res4{Cookie: r.cookie, Stat: r.told(stat)}).Encode(w)
}

// unnamed leaves the holder's name out, as it is for holders that are not hosts. A datagram may come from another machine
// than it says. The server sends no more to the machine that it names than the sender has sent.
func (r *request) unnamed() { r.holder.SVID, r.holder.OH = 0, nil }

func testRes(r *request, w *xdr.Writer, stat wire.Stat4) {
	if r.call.Header.Version != wire.Version {
		(&wire.TestRes3{Cookie: r.cookie, Reply: wire.TestReply3{Stat: r.told(stat), Holder: narrowHolder(&r.holder)}}).Encode(w)
		return
	}
	(&wire.TestRes4{Cookie: r.cookie, Reply: wire.TestReply4{Stat: stat, Holder: r.holder}}).Encode(w)
}
