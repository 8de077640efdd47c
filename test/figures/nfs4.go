package main

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// This file measures small calls of NFSv4.2, and of NFSv3 for comparison.

const (
	smallDepth = 16 // calls under way at a time, on one connection
	smallSize  = 4 << 10
	// One figure has one session with manyConns connections. The figure that it is compared with has
	// manyConns sessions with one connection each. Both have manyDepth calls under way on each
	// connection.
	manyConns = 16
	manyDepth = 4
)

// four returns the measurements of NFSv4.2, which the caller then runs. fh is a file that NFSv3 has
// created.
func (s *stage) four(v *served, fh nfs3wire.FileHandle3) (all []figure, err error) {
	for _, way := range []struct {
		name   string
		target client.Target
		three  *calls
	}{
		{"TCP", v.targetTCP(), s.newCalls(v.overTCP, smallDepth)},
		{"RDMA", v.targetRDMA(), s.newCalls(v.overRDMA, smallDepth)},
	} {
		way.target.Cred = s.cred
		three := "NFSv3 READ 4 KiB over " + way.name + ", depth 16"
		one, err := s.newCompounds(way.target, 1, 1, smallDepth)
		if err != nil {
			return nil, err
		}
		alone, with := one.read(fh.Data, false), one.read(fh.Data, true)
		all = append(all,
			figure{three, 0, "", 0, way.three.read(fh, smallSize)},
			figure{"SEQUENCE, PUTFH, READ 4 KiB over " + way.name + ", depth 16", 0, three, 0, alone},
			figure{"SEQUENCE, PUTFH, READ 4 KiB, GETATTR over " + way.name + ", depth 16", 0, three, 0.85, with},
		)
	}
	target := v.targetTCP()
	target.Cred = s.cred
	sessions, err := s.newCompounds(target, manyConns, 1, manyConns*manyDepth)
	if err != nil {
		return nil, err
	}
	shared, err := s.newCompounds(target, 1, manyConns, manyConns*manyDepth)
	if err != nil {
		return nil, err
	}
	const many = "the same over TCP, 16 sessions with one connection each"
	return append(all,
		figure{many, 0, "", 0, sessions.read(fh.Data, true)},
		figure{"the same over TCP, one session with 16 connections", 0, many, 1, shared.read(fh.Data, true)},
	), nil
}

func (v *served) targetTCP() client.Target {
	host, port, _ := client.SplitHostPort(v.tcp)
	return client.Target{Transport: client.TCP, Host: host, Port: port}
}

func (v *served) targetRDMA() client.Target {
	return client.Target{Transport: client.RDMA, Host: v.rdma.Addr().String(), Port: int(v.rdma.Port()), Provider: v.device}
}

// compounds makes compounds in one or several sessions, up to depth at a time.
type compounds struct {
	sessions []*client.Session
	opens    []wire.StateID4 // stateid of the open file in each session
	depth    int
	turns
}

func (s *stage) newCompounds(target client.Target, sessions, connections, depth int) (*compounds, error) {
	c := &compounds{depth: depth, turns: newTurns()}
	for range sessions {
		one, err := client.DialSession(context.Background(), client.SessionConfig{
			Target: target, Minor: 2, Slots: depth / sessions, Connections: connections,
		})
		if err != nil {
			return nil, err
		}
		s.atEnd(func() { one.Close() })
		opened, err := one.NFS4().Open(context.Background(), client.Open4{Name: fileName, Owner: []byte("figures"), Access: wire.Open4ShareAccessRead})
		if err != nil {
			return nil, err
		}
		c.sessions, c.opens = append(c.sessions, one), append(c.opens, opened.StateID)
	}
	return c, nil
}

// statAttributes are the attributes that NFSv3 returns with each READ, except the owners, which
// NFSv4 sends as text.
var statAttributes = wire.Bits(
	wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode,
	wire.Fattr4Numlinks, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeMetadata, wire.Fattr4TimeModify,
)

// reading is one compound that is sent repeatedly.
type reading struct {
	client.Compound
	put     wire.PutFH4Args
	read    wire.Read4Args
	readRes wire.Read4Res
	stat    wire.Getattr4Args
	statRes wire.Getattr4Res
}

// read returns a function that makes READs of 4 KiB, with or without a GETATTR of statAttributes.
func (c *compounds) read(fh []byte, attributes bool) func(n int) error {
	_, sinks := pieces(c.depth, smallSize)
	var all []*reading
	for i := range c.depth {
		r := new(reading)
		session := i % len(c.sessions)
		r.put.Object = wire.NFSFH4(fh)
		r.read = wire.Read4Args{Stateid: c.opens[session], Offset: uint64(i * smallSize), Count: smallSize}
		r.stat.AttrRequest = statAttributes
		r.Ops = []client.Op{{Number: wire.OpPutFH, Args: &r.put}, {Number: wire.OpRead, Args: &r.read, Res: &r.readRes}}
		if attributes {
			r.Ops = append(r.Ops, client.Op{Number: wire.OpGetattr, Args: &r.stat, Res: &r.statRes})
		}
		r.MaxResults = 1024
		r.Sinks = [][]byte{sinks[i]}
		r.Done = func(k *client.Compound) {
			if c.ended(k.Err) {
				c.sessions[session].Start(k)
			}
		}
		all = append(all, r)
	}
	return func(n int) error {
		return c.run(n, len(all), func(i int) { c.sessions[i%len(c.sessions)].Start(&all[i].Compound) })
	}
}
