package client

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A canned caller answers each request at once. reply writes the reply; it gets the request's
// SEQUENCE.
type canned struct {
	out, in xdr.Writer
	buf     [2][]byte
	reply   func(w *xdr.Writer, sequence *nfs4wire.Sequence4Args)
	asked   nfs4wire.Sequence4Args
}

func (k *canned) Start(x *rpc.Exchange) {
	k.out.Reset(k.buf[0][:0])
	x.Args(&k.out)
	var d xdr.Decoder
	d.Reset(k.out.Bytes(), 0, nil)
	d.Skip(16)
	k.asked.Decode(&d)
	k.in.Reset(k.buf[1][:0])
	k.reply(&k.in, &k.asked)
	x.Err = nil
	x.Results.Reset(k.in.Bytes(), 0, nil)
	x.Done(x)
}

func (k *canned) Cancel(*rpc.Exchange, error) {}

// cannedSession returns a session of 4 slots on a canned caller.
func cannedSession(reply func(w *xdr.Writer, sequence *nfs4wire.Sequence4Args)) (*Session, *canned) {
	k := &canned{reply: reply, buf: [2][]byte{make([]byte, 0, 8192), make([]byte, 0, 8192)}}
	s := &Session{cfg: SessionConfig{Minor: 2}, wake: make(chan struct{}, 1)}
	s.slots = newSlotTable(nfs4wire.SessionID4{1}, 4)
	s.links = []*link{{conn: &Conn{caller: k}}}
	return s, k
}

// goodSequence writes the start of a successful reply with n results, up to that of SEQUENCE.
func goodSequence(w *xdr.Writer, args *nfs4wire.Sequence4Args, n uint32) {
	w.Uint32(0)
	w.Uint32(0)
	w.Uint32(n)
	w.Uint32(uint32(nfs4wire.OpSequence))
	(&nfs4wire.Sequence4Res{ResOK: nfs4wire.Sequence4ResOK{
		Sessionid: args.Sessionid, Sequenceid: args.Sequenceid, Slotid: args.Slotid, HighestSlotid: 3, TargetHighestSlotid: 3,
	}}).Encode(w)
}

// SEQUENCE, PUTFH, READ and GETATTR allocate nothing, from Start to Done.
func TestCompoundNoAllocation(t *testing.T) {
	data := make([]byte, 4096)
	s, _ := cannedSession(func(w *xdr.Writer, args *nfs4wire.Sequence4Args) {
		goodSequence(w, args, 4)
		w.Uint32(uint32(nfs4wire.OpPutFH))
		w.Uint32(0)
		w.Uint32(uint32(nfs4wire.OpRead))
		w.Uint32(0)
		w.Bool(false)
		w.Opaque(data)
		w.Uint32(uint32(nfs4wire.OpGetattr))
		w.Uint32(0)
		(&nfs4wire.FAttr4{Attrmask: nfs4wire.Bits(nfs4wire.Fattr4Size), AttrVals: data[:8]}).Encode(w)
	})
	fh := nfs4wire.PutFH4Args{Object: []byte("handle")}
	read, readRes := nfs4wire.Read4Args{Count: 4096}, nfs4wire.Read4Res{}
	getattr, getattrRes := nfs4wire.Getattr4Args{AttrRequest: nfs4wire.Bits(nfs4wire.Fattr4Size)}, nfs4wire.Getattr4Res{}
	sink := make([]byte, 4096)
	c := &Compound{
		Ops: []Op{
			{Number: nfs4wire.OpPutFH, Args: &fh},
			{nfs4wire.OpRead, &read, &readRes},
			{nfs4wire.OpGetattr, &getattr, &getattrRes},
		},
		Sinks: [][]byte{sink}, MaxResults: 512,
	}
	done := 0
	c.Done = func(c *Compound) {
		if n, _, err := TakeRead4Data(&readRes.ResOK, sink); c.Err != nil || err != nil || n != 4096 || c.Executed != 3 {
			t.Errorf("%v, %d bytes, %v, %d operations", c.Err, n, err, c.Executed)
		}
		done++
	}
	s.Start(c)
	if n := testing.AllocsPerRun(200, func() { s.Start(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if done < 200 {
		t.Errorf("%d of them ended", done)
	}
}
