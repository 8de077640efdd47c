package relay

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// The relay finds the data of a WRITE, of any length, so that it can send them in a chunk.
// Arguments that do not end with the data are sent unchanged.
func TestDataOfAWriteIsFound(t *testing.T) {
	row := &carried3()[nfs3wire.ProcWrite]
	for _, n := range []int{1, 2, 3, 4, 5, 4095, 4096, 4097} {
		data := bytes.Repeat([]byte{7}, n)
		var w xdr.Writer
		w.Reset(make([]byte, 0, 8192))
		w.Opaque([]byte("handle"))
		w.Uint64(0)
		w.Uint32(uint32(n))
		w.Uint32(uint32(nfs3wire.FileSync))
		w.Opaque(data)
		for _, spare := range []int{0, 4} {
			f := forward{call: new(rpc.Call), args: append(bytes.Clone(w.Bytes()), make([]byte, spare)...)}
			f.call.Args.Reset(f.args, 0, nil)
			f.findItem(row)
			if found := f.item != nil; found != (spare == 0) || found && !bytes.Equal(f.item, data) {
				t.Errorf("%d bytes of data, %d behind them: found %d bytes", n, spare, len(f.item))
			}
			if sent := sentArgs(&f); !bytes.Equal(sent, f.args) {
				t.Errorf("%d bytes of data, %d behind them: the server gets other arguments than the relay", n, spare)
			}
		}
	}
}

// sentArgs returns the arguments that a server without chunks gets.
func sentArgs(f *forward) (args []byte) {
	var w xdr.Writer
	w.Reset(make([]byte, 0, 8192))
	f.encodeArgs(&w)
	at := 0
	for _, p := range w.Payloads() {
		args = append(args, w.Bytes()[at:p.Position]...)
		args = append(append(args, p.Data...), make([]byte, xdr.Pad(len(p.Data)))...)
		at = p.Position
	}
	return append(args, w.Bytes()[at:]...)
}
