package overtime

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A protocol is a version of NFS as a client speaks it.
type protocol interface {
	// prepare is called before the first call of a thread, which has a number, with what
	// makes a call.
	prepare(number uint64, call func(build func(xid uint32) []byte) []byte) error
	// locking says which call there is about the lock now: acquire, release, or none.
	locking() (d deed, any bool)
	// deeds are the calls that it has about a directory of files, and about one of
	// directories.
	deeds(directories bool) []deed
	// call writes the call.
	call(xid uint32, a asked) []byte
	// reply reads the answer.
	reply(d *xdr.Decoder, a asked) (t told, handle []byte)
}

// objects are the file handles that calls are about, and the name of the machine that
// makes the calls.
type objects struct {
	machine     string
	blocks      []byte   // one file for all
	sizes       [][]byte // a file each
	directories [][]byte
	target      []byte
	root        []byte
}

// block is how far two registers of one file lie apart, in bytes.
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

// answerOf takes a reply apart. A reply that is none of a call that was executed has an
// error.
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
