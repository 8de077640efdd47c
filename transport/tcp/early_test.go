package tcp

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// The server answers a call that the program refuses after the start of its record, while the rest
// is still to come. It reserves nothing for the record, and serves the record behind it.
func TestStrangersReserveNothing(t *testing.T) {
	f := start(t, Config{})
	f.program.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Early = a.Header.Procedure == rpctest.PUT
		return rpc.Done
	}
	wroteSomething() // for the race detector: the server reads the settings above
	nc := f.raw()
	const n = 900_000
	m := rpctest.Message(1, rpctest.PUT, func(w *xdr.Writer) {
		w.String("name")
		w.Uint32(n)
	})
	var mark [4]byte
	binary.BigEndian.PutUint32(mark[:], lastFragment|uint32(len(m)+n))
	nc.Write(append(append(mark[:], m...), make([]byte, 4000)...))
	reply := make([]byte, 4+rpc.ReplyHeader+4)
	want := func(result uint32) {
		t.Helper()
		if _, err := io.ReadFull(nc, reply); err != nil {
			t.Fatal(err)
		}
		d := xdr.NewDecoder(reply[4:])
		if _, _, err := rpc.ReadReply(d); err != nil || d.Uint32() != result {
			t.Fatalf("reply: %v", err)
		}
	}
	want(rpctest.Early)
	if peak := f.pool.Stats().Peak; peak != 0 {
		t.Errorf("%d bytes were reserved for a stranger", peak)
	}
	nc.Write(make([]byte, n-4000))
	next := rpctest.Message(2, rpctest.LATER, u32(7))
	binary.BigEndian.PutUint32(mark[:], lastFragment|uint32(len(next)))
	nc.Write(append(mark[:], next...))
	want(7)
}
