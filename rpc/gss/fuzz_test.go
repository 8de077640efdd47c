package gss_test

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// unharmed checks that the server has not panicked, and that no BUMP was executed.
func (s *site) unharmed(t *testing.T) {
	t.Helper()
	if n := s.rpc.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
	if n := s.program.Served[rpctest.BUMP].Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
}

// FuzzCredential checks that a call of a client without a context is not executed, with any
// credential and verifier.
func FuzzCredential(f *testing.F) {
	f.Add(words(1, procData, 1, 1, 16, 0, 0, 0, 0), uint32(6), []byte("checksum"), uint32(rpctest.BUMP))
	f.Add(words(1, procInit, 0, 0, 0), uint32(0), []byte{}, uint32(0))
	f.Add(words(1, procContinue, 0, 0, 16, 0, 0, 0, 0), uint32(0), []byte{}, uint32(0))
	f.Add(words(1, procDestroy, 1, 1, 16, 0, 0, 0, 0), uint32(6), []byte{}, uint32(0))
	f.Add(words(2, 4, 1, 4, 0), uint32(6), []byte{}, uint32(0))
	f.Add(words(1<<32-1), uint32(6), []byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, body []byte, flavor uint32, verifier []byte, procedure uint32) {
		if len(body) > rpc.MaxAuthBytes || len(verifier) > rpc.MaxAuthBytes || procedure == rpctest.STALL || procedure == rpctest.HOLD {
			return
		}
		s := newSite(t, gss.Config{})
		r := s.establish(s.wire(), s.mech)
		if body == nil {
			body = []byte{}
		}
		if verifier == nil {
			verifier = []byte{}
		}
		c := r.call(nil, header{body: body, verifier: verifier, flavor: rpc.Flavor(flavor), procedure: procedure}, put(tag))
		// A call that makes a context gets an accepted reply even if the context is refused.
		if st := s.gss.Stats(); answer(c) == nil && st.Refused == ([len(st.Refused)]uint64{}) {
			t.Errorf("credential %x, verifier %x: answered", body, verifier)
		}
		s.unharmed(t)
	})
}

// FuzzToken checks that a client gets a context only if the mechanism accepts its token.
func FuzzToken(f *testing.F) {
	m := gsstest.New()
	i, err := m.Initiate(context.Background(), "nfs@server")
	if err != nil {
		f.Fatal(err)
	}
	token, _, err := i.Step(nil, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token, false)
	f.Add(token, true)
	f.Add(token[:9], false)
	f.Add([]byte{0x60, 0x80}, false)
	f.Add([]byte{0x60, 0x84, 0xff, 0xff, 0xff, 0xff, 0x06, 0x01, 0x00}, false)
	f.Add([]byte{0x60, 0x02, 0x06, 0x00}, false)
	f.Fuzz(func(t *testing.T, token []byte, several bool) {
		if len(token) > 1024 {
			return
		}
		m := gsstest.New()
		if several {
			m.Tokens = 2
		}
		s := newSite(t, gss.Config{Mechanisms: []gss.Mechanism{m}})
		r, err := s.wire().make(procInit, nil, token)
		if err != nil {
			t.Fatal(err)
		}
		st := s.gss.Stats()
		if made := int64(st.Contexts); made != m.Accepted.Load() || (st.Contexts+st.HalfMade > 0) != (r.major <= 1) {
			t.Errorf("%+v, %+v", st, r)
		}
		s.unharmed(t)
	})
}

// FuzzBody checks that a call with a correct header and arbitrary arguments gets GARBAGE_ARGS.
func FuzzBody(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(words(8, 1, 1), false)
	f.Add(append(words(12, 1), append(tag, words(30, 0, 0, 0, 0, 0, 0, 0, 0)...)...), false)
	f.Add(append(words(49+8), make([]byte, 60)...), true)
	f.Add(words(1<<32-1), true)
	f.Fuzz(func(t *testing.T, body []byte, privacy bool) {
		if len(body) > 1500 {
			return
		}
		service := uint32(rpc.GSSIntegrity)
		if privacy {
			service = uint32(rpc.GSSPrivacy)
		}
		s := newSite(t, gss.Config{})
		r := s.establish(s.wire(), s.mech)
		body = append(body, make([]byte, xdr.Pad(len(body)))...)
		if err := answer(r.call(r.ctx, r.data(1, service), put(body))); stat(err) != rpc.AcceptGarbageArgs {
			t.Errorf("%x: %v", body, err)
		}
		s.unharmed(t)
	})
}

// FuzzReply checks that a client accepts only replies that the server has signed.
func FuzzReply(f *testing.F) {
	f.Add(append(words(0, 0, 0), words(0, 16, 0, 0, 0, 0, 0, 0, 1024, 0)...), true, uint8(1))
	f.Add(words(0, 6, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), false, uint8(2))
	f.Add(words(0, 6, 0, 0, 1<<31), false, uint8(3))
	f.Add(words(1, 1, 13), false, uint8(3))
	f.Fuzz(func(t *testing.T, reply []byte, making bool, service uint8) {
		if len(reply) > 1500 {
			return
		}
		s := newSite(t, gss.Config{})
		w := s.wire()
		cfg := s.config(rpc.GSSService(service%3 + 1))
		back := func(m []byte) []byte {
			if len(m) < 8 {
				return m
			}
			return append(m[:8:8], reply...)
		}
		if making {
			w.back = back
			if _, err := gss.NewClient(context.Background(), w, cfg); err == nil {
				t.Errorf("%x: there is a client", reply)
			}
			return
		}
		k := s.clientOf(w, cfg)
		w.back = back
		if _, err := bump(k); err == nil {
			t.Errorf("%x: the results were taken", reply)
		}
		w.back = nil
	})
}
