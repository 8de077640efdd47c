package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Server.Calls lists a call that was put off until its client has not made it again for a while. It lists calls that
// wait for the same thing once.
func TestPutOffCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		p.Release(1)
		call := stall(conn, 1)
		call.Go(s)
		ended(t, call.Done)
		began := time.Now()
		for range 3 {
			call.PutOff(rpc.WaitGrace, 5, 6, []byte("object"))
			time.Sleep(10 * time.Second)
		}
		call.PutOff(rpc.WaitShare, 5, 6, nil)
		all := s.Calls()
		if len(all) != 2 || all[0].Stage != rpc.PutOff || all[0].Wait != rpc.WaitGrace || all[0].Part != 5 || all[0].Group != 6 || string(all[0].Object) != "object" ||
			!all[0].First.Equal(began) || !all[0].Since.Equal(began.Add(20*time.Second)) || all[1].Wait != rpc.WaitShare {
			t.Errorf("%+v", all)
		}
		time.Sleep(10 * time.Second)
		if all := s.Calls(); len(all) != 1 || all[0].Wait != rpc.WaitShare {
			t.Errorf("10 s later: %+v", all)
		}
		conn.Close()
		s.Heard()
		if n := s.PutOffs(); n != 0 {
			t.Errorf("when the client has gone, %d are kept", n)
		}
	})
}

// The server remembers a bounded number of calls that were put off. Once these are old, others take their places.
func TestPutOffCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{})
		defer s.Close()
		p.Release(1)
		call := stall(conn, 1)
		call.Go(s)
		ended(t, call.Done)
		putOff := func(wait rpc.Wait) {
			for i := range uint32(1000) {
				call.PutOff(wait, i, 0, nil)
			}
		}
		putOff(rpc.WaitGrace)
		if n := s.PutOffs(); n != 256 {
			t.Errorf("%d are kept", n)
		}
		time.Sleep(time.Minute)
		putOff(rpc.WaitShare)
		for _, c := range s.Calls() {
			if c.Wait != rpc.WaitShare {
				t.Fatalf("an old one has its place: %+v", c)
			}
		}
		if n := s.PutOffs(); n != 256 {
			t.Errorf("a minute later %d are kept", n)
		}
	})
}
