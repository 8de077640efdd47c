package overtime

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A protocol makes the calls of a client in one version of NFS, and decodes the answers.
type protocol interface {
	// prepare makes the calls that must precede the first call of a thread. The argument number
	// identifies the thread. The function call makes one call and returns the reply.
	prepare(number uint64, call func(build func(xid uint32) []byte) []byte) error
	// locking returns the lock operation that the client may call now: release if it holds the
	// lock, and acquire otherwise. The result any is false if the version has no locks.
	locking() (d deed, any bool)
	// deeds returns the calls that the version has for a directory. If directories is true, the
	// entries of the directory are directories, otherwise files.
	deeds(directories bool) []deed
	// call returns an encoded call.
	call(xid uint32, a asked) []byte
	// reply decodes an answer.
	reply(d *xdr.Decoder, a asked) (t told, handle []byte)
}

// objects has the file handles of a site's objects, and the name of the machine that makes the
// calls.
type objects struct {
	machine     string
	blocks      []byte   // one file for all blocks
	sizes       [][]byte // one file for each size
	directories [][]byte
	target      []byte
	root        []byte
}

// block is the size of a block, in bytes. Each block of a file has one value.
const block = 4096

func message(machine string, h rpc.CallHeader, args func(w *xdr.Writer)) []byte {
	var err error
	if h.Cred, err = rpc.AuthSysCred(0, machine, 0, 0, nil); err != nil {
		panic(err)
	}
	w := xdr.NewWriter(make([]byte, 0, 1024))
	rpc.PutCall(w, &h)
	args(w)
	var m []byte
	at := 0
	for _, p := range w.Payloads() {
		m = append(m, w.Bytes()[at:p.Position]...)
		m = append(m, p.Data...)
		m = append(m, make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(m, w.Bytes()[at:]...)
}

// answerOf decodes the reply m. The status is `wrong` if the server refused the call or the reply
// cannot be decoded. It is `unknown` if m is nil, because no reply came.
func answerOf(p protocol, m []byte, a asked) (t told, handle []byte) {
	if m == nil {
		return told{}, nil
	}
	d := xdr.NewDecoder(m)
	if _, _, err := rpc.ReadReply(d); err != nil {
		return told{status: wrong, text: err.Error()}, nil
	}
	t, handle = p.reply(d, a)
	if err := d.Finish(); err != nil {
		return told{status: wrong, text: err.Error()}, nil
	}
	return t, handle
}
