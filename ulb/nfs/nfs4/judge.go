package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Judge examines the first file handle of a compound. It checks that this server has issued the
// handle, that its export serves this caller, and that the export accepts the caller. If not,
// the server reserves no memory and fetches no data for the rest: the compound ends at the
// handle, but short operations that such callers may do still run. Arguments that Judge does
// not see, such as data, are bounded by nfs.Binding4.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if a.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	// No result may be larger than the reply can carry. Each operation is checked against the
	// room that is left.
	j.Words = max(min(j.Words, j.Room), minReply)
	if j.Object == nil {
		p.judgeByName(a, j)
		return rpc.Done
	}
	o, err := p.exports.Find(j.Object)
	if err != nil || !o.Export.Serves(a.Conn, &a.Cred) {
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	takes := o.Export.Admits(a.Conn, &a.Cred) && !o.Export.Refuses(&a.Cred)
	j.Known = takes
	if !takes || p.exports.Delays(o.Export, &a.Cred) {
		// PUTFH will tell the client the reason.
		j.Early, j.Payload = true, 0
		return rpc.Done
	}
	j.Lane = o.Export.FS.Lane()
	return rpc.Done
}

// judgeByName judges a compound that does not begin with a file handle: it begins at the
// root, or neither reads nor writes. Clients read and write by handle. A peer that has not
// yet sent one of this server's handles therefore gets little memory, and the server
// fetches little data for it.
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
		// The operations received so far are executed. The compound ends where the missing
		// part would begin.
		j.Early, j.Payload = true, 0
	}
}

// nameless is the limit, in bytes, of the payload memory and of the message length for a
// compound without a file handle from a peer that is not known.
const nameless = 64 << 10

// minReply is the size, in bytes, of a reply with the longest tag and one operation that
// failed for lack of room.
const minReply = 4 + 4 + maxTag + 4 + 8
