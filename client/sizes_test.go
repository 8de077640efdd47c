package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A session sends no request beyond ca_maxrequestsize: a WRITE is cut, and another request ends with
// an error. The session goes on.
func TestSessionKeepsToTheRequestSize(t *testing.T) {
	f, server := newFake4(t)
	f.longest = 64 << 10
	for _, target := range server.Targets() {
		s := f.session(target, client.SessionConfig{Minor: 1})
		w, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, make([]byte, 100_000), wire.FileSync4)
		must(t, err)
		if w.Count < 60<<10 || w.Count > 64<<10 {
			t.Errorf("%d bytes of a WRITE of 100,000 were sent", w.Count)
		}
		before := f.count(wire.OpLookup)
		name := wire.Lookup4Args{Objname: wire.UTF8String(make([]byte, 70_000))}
		err = s.Do(testserver.Within(t), &client.Compound{
			Ops: []client.Op{{Number: wire.OpPutRootFH}, {Number: wire.OpLookup, Args: &name}}, MaxArgs: 71_000,
		}, nil)
		if !errors.Is(err, client.ErrTooLong) || f.count(wire.OpLookup) != before {
			t.Errorf("a request that is too long ends with %v", err)
		}
		_, err = s.NFS4().Getattr(testserver.Within(t), nil, wire.Bits(wire.Fattr4Size))
		must(t, err)
	}
}

// A server ends each connection on one request. The request ends with an error, and other requests
// are answered.
func TestRequestThatEndsConnections(t *testing.T) {
	front, server := newFront4(t)
	s := front.session(server.Targets()["tcp"], client.SessionConfig{})
	front.react(func(op wire.OpNum) reaction {
		if op == wire.OpPutFH {
			return reaction{end: true}
		}
		return reaction{}
	})
	_, err := s.NFS4().Write(testserver.Within(t), client.Handle("f"), anonymous, 0, make([]byte, 10), wire.FileSync4)
	if !errors.Is(err, client.ErrEndsConnections) || front.asked(wire.OpPutFH) != 4 {
		t.Errorf("%v, after %d requests", err, front.asked(wire.OpPutFH))
	}
	_, err = s.NFS4().Getattr(testserver.Within(t), nil, wire.Bits(wire.Fattr4Size))
	must(t, err)
}

// limited is a server of NFS version 3, whose largest WRITE has the given number of bytes.
type limited struct {
	most  uint32
	dumb  bool // it does not answer FSINFO
	calls []nfs3wire.Procedure
	data  []int
}

func (l *limited) Cancel(*rpc.Exchange, error) {}

func (l *limited) Start(x *rpc.Exchange) {
	p := nfs3wire.Procedure(x.Procedure)
	l.calls = append(l.calls, p)
	args, results := xdr.NewWriter(make([]byte, 0, 1<<10)), xdr.NewWriter(make([]byte, 0, 1<<10))
	x.Args(args)
	switch {
	case p == nfs3wire.ProcFsinfo && l.dumb:
		(&nfs3wire.Fsinfo3Res{Status: nfs3wire.NFS3ErrNotSupp}).Encode(results)
	case p == nfs3wire.ProcFsinfo:
		res := nfs3wire.Fsinfo3Res{Status: nfs3wire.NFS3OK}
		res.ResOK.WriteMax = l.most
		res.Encode(results)
	case p == nfs3wire.ProcWrite:
		n := len(args.Payloads()[0].Data)
		l.data = append(l.data, n)
		res := nfs3wire.Write3Res{Status: nfs3wire.NFS3OK}
		res.ResOK.Count = uint32(n)
		res.Encode(results)
	}
	x.Err = nil
	x.Results.Reset(results.Bytes(), 0, nil)
	x.Done(x)
}

// NFS3 asks for the largest WRITE before the first long one, and cuts WRITEs to it. If the server does
// not say, it writes what every server takes.
func TestNFS3KeepsToTheWriteSize(t *testing.T) {
	const fsinfo, write = nfs3wire.ProcFsinfo, nfs3wire.ProcWrite
	for _, c := range []struct {
		server limited
		calls  []nfs3wire.Procedure
		data   []int
	}{
		{limited{most: 64 << 10}, []nfs3wire.Procedure{write, fsinfo, write, write}, []int{8 << 10, 64 << 10, 64 << 10}},
		{limited{most: 1 << 20}, []nfs3wire.Procedure{write, fsinfo, write, write}, []int{8 << 10, 100_000, 100_000}},
		{limited{dumb: true}, []nfs3wire.Procedure{write, fsinfo, write, fsinfo, write}, []int{8 << 10, 8 << 10, 8 << 10}},
	} {
		n := client.NFS3{Caller: &c.server, Sizes: new(client.Sizes)}
		for _, size := range []int{8 << 10, 100_000, 100_000} {
			_, err := n.Write(context.Background(), client.Handle("f"), 0, make([]byte, size), nfs3wire.FileSync)
			must(t, err)
		}
		if !slices.Equal(c.server.calls, c.calls) || !slices.Equal(c.server.data, c.data) {
			t.Errorf("a server that takes %d: %v with %v", c.server.most, c.server.calls, c.server.data)
		}
	}
}
