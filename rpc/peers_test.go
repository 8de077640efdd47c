package rpc_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// Conns describes the connections that exist: what they were used for, who called first, and when a call was heard last.
func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		p.Release(1)
		other := s.NewConn(peer, local, "tcp", true)
		began := time.Now()
		time.Sleep(time.Second)
		conn.Notes(2)
		for _, name := range []string{"box", "other"} {
			cred, err := rpc.AuthSysCred(1, name, 1000, 100, nil)
			if err != nil {
				t.Fatal(err)
			}
			h := rpc.CallHeader{Program: rpctest.Number, Version: rpctest.LowVersion, Procedure: rpctest.NULL, Cred: cred}
			ended(t, rpctest.NewCall(conn, rpctest.CallMessage(h, nil)).Go(s).Done)
		}
		s.Heard()
		time.Sleep(time.Hour)
		all := s.Conns()
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		slices.SortFunc(all, func(a, b rpc.ConnInfo) int { return int(a.ID) - int(b.ID) })
		if c := all[0]; c.Conn != conn || len(c.Programs) != 1 || c.Programs[0] != [2]uint32{rpctest.Number, rpctest.LowVersion} || !slices.Equal(c.Flavors, []string{"sys"}) || c.Machine != "box" || !slices.Equal(c.Noted, []uint32{2}) ||
			!c.Heard.Equal(began.Add(time.Second)) || !c.Began.Equal(began) {
			t.Errorf("the one that was used: %+v", c)
		}
		if c := all[1]; c.Conn != other || c.Programs != nil || c.Flavors != nil || !c.Heard.IsZero() {
			t.Errorf("the other: %+v", c)
		}
		conn.Close()
		other.Close()
		if all := s.Conns(); len(all) != 0 {
			t.Errorf("at the end: %+v", all)
		}
	})
}
