package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Judge looks at the first handle that a compound puts: whether it is one of ours, and
// whether its export serves this client, and takes the caller. If it does not, nothing is
// reserved or brought for what follows: the compound ends there, but for operations that are
// open to such callers, and these are short. What a compound does not get to say
// a word about, such as its data, is bounded by its shape.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if a.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	// The largest result that is executed is the one that can be carried back, and
	// operations are judged by what is left of that.
	j.Words = max(min(j.Words, j.Room), minReply)
	if j.Object == nil {
		p.judgeByName(a, j)
		return rpc.Done
	}
	o, err := p.exports.Find(j.Object)
	if err != nil || !o.Export.Serves(a.Conn) {
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	takes := o.Export.Admits(a.Conn, &a.Cred) && !o.Export.Refuses(&a.Cred)
	j.Known = takes
	if !takes || p.exports.Delays(o.Export, &a.Cred) {
		// The compound is told when it puts the handle.
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// judgeByName judges a compound that begins at the root, or does not read or write at
// all. A peer that has shown no handle of ours gets a little at most, and little is
// brought for it: clients read and write by handles.
func (p *Program) judgeByName(a *rpc.Arrived, j *rpc.Judgement) {
	if a.Conn.Known() {
		return
	}
	j.Payload = min(j.Payload, nameless)
	beside := 0
	for _, item := range a.Placed {
		beside += int(item.Length)
	}
	if a.MessageLen+beside > nameless {
		// What is here of it is executed, and ends where the rest would begin.
		j.Early, j.Payload = true, 0
	}
}

// nameless is how much payload is reserved, and how long a message is brought, in bytes,
// for a compound without a handle of a peer that is not known.
const nameless = 64 << 10

// minReply is room for a tag, and the result of an operation that could not be executed
// for want of room.
const minReply = 4 + 4 + maxTag + 4 + 8
