package rpc_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// rest is a Fallback. It serves procedures 0 to 2 of all programs. Procedure 1 doubles a number;
// procedure 2 returns PROG_MISMATCH.
type rest struct{ judged rpc.CallHeader }

var restRows = []rpc.Procedure{{Name: "NULL"}, {Name: "DOUBLE", MaxArgs: 4, MaxResults: 4}, {Name: "OTHER", Once: true}}

func (r *rest) Procedure(_, _, procedure uint32) *rpc.Procedure {
	if int(procedure) >= len(restRows) {
		return nil
	}
	return &restRows[procedure]
}

func (r *rest) Judge(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
	r.judged = a.Header
	return rpc.Done
}

func (r *rest) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch c.Header.Procedure {
	case 1:
		w.Uint32(2 * c.Args.Uint32())
	case 2:
		return rpc.Outcome{Stat: rpc.AcceptProgMismatch, Low: 7, High: 9}
	}
	return rpc.Done
}

// Calls to unregistered programs go to the Fallback. Calls to registered programs go to them, also
// if they were registered after the Fallback.
func TestFallback(t *testing.T) {
	s, toy, conn := newServer(t, rpc.Config{})
	message := func(program, version, procedure uint32, args func(w *xdr.Writer)) []byte {
		return rpctest.CallMessage(rpc.CallHeader{XID: 3, Program: program, Version: version, Procedure: procedure}, args)
	}
	unknown := message(4711, 5, 1, u32(21))
	var re *rpc.ReplyError
	if _, err := rpctest.NewCall(conn, unknown).Run(s).Results(); !errors.As(err, &re) || *re != (rpc.ReplyError{Stat: rpc.AcceptProgUnavail}) {
		t.Errorf("without a fallback: %v", err)
	}
	r := new(rest)
	s.SetFallback(r)
	s.Register(another{rpctest.NewProgram()})
	d, err := rpctest.NewCall(conn, unknown).Run(s).Results()
	if err != nil || d.Uint32() != 42 || d.Finish() != nil {
		t.Errorf("with a fallback: %v", err)
	}
	if h := r.judged; h.Program != 4711 || h.Version != 5 || h.Procedure != 1 {
		t.Errorf("judged %+v", h)
	}
	for _, c := range []struct {
		what    string
		message []byte
		want    rpc.ReplyError
	}{
		{"a procedure that it does not know", message(4711, 5, 3, nil), rpc.ReplyError{Stat: rpc.AcceptProcUnavail}},
		{"arguments beyond its row", message(4711, 5, 1, u32(1, 2)), rpc.ReplyError{Stat: rpc.AcceptGarbageArgs}},
		{"versions of its own", message(4711, 5, 2, nil), rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 7, High: 9}},
		{"versions of its own, replayed", message(4711, 5, 2, nil), rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 7, High: 9}},
		{"another version of a registered program", message(rpctest.Number, 9, 0, nil), rpc.ReplyError{Stat: rpc.AcceptProgMismatch, Low: 1, High: 3}},
	} {
		_, err := rpctest.NewCall(conn, c.message).Run(s).Results()
		if !errors.As(err, &re) || *re != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if hits := s.Stats().ReplyCache.Hits; hits != 1 {
		t.Errorf("%d replays", hits)
	}
	if _, err := rpctest.NewCall(conn, message(rpctest.Number, 1, rpctest.NULL, nil)).Run(s).Results(); err != nil || toy.Served[rpctest.NULL].Load() != 1 {
		t.Errorf("a registered program: %v", err)
	}
}

// another is the test program with another number.
type another struct{ *rpctest.Program }

func (another) Number() uint32 { return rpctest.Number + 1 }
