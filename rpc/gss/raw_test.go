package gss_test

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Procedures of RPCSEC_GSS, with the numbers of RFC 2203 §5.2.
const (
	procData     = 0
	procInit     = 1
	procContinue = 2
	procDestroy  = 3
)

// A header has the fields of a call's header that a test may change.
type header struct {
	version, proc, seq, service uint32
	handle                      []byte
	// body, if not nil, replaces the whole body of the credential.
	body []byte
	// procedure is the program's procedure number.
	procedure uint32
	// verifier, if not nil, replaces the correct verifier. flavor is the flavor of the verifier.
	verifier []byte
	flavor   rpc.Flavor
}

// A raw is the client's side of a context, for tests that encode their calls themselves.
type raw struct {
	*wire
	ctx    gss.Context
	handle []byte
}

// result is rpc_gss_init_res.
type result struct {
	handle        []byte
	major, minor  uint32
	window        uint32
	token         []byte
	verifier      rpc.AuthBytes
	flavorOfReply rpc.Flavor
}

// call encodes a call under the context c, which may be nil, and serves it.
func (w *wire) call(c gss.Context, h header, args func(w *xdr.Writer)) *rpctest.Call {
	body := h.body
	if body == nil {
		cw := xdr.NewWriter(make([]byte, 0, 512))
		for _, v := range []uint32{h.version, h.proc, h.seq, h.service} {
			cw.Uint32(v)
		}
		cw.Opaque(h.handle)
		body = cw.Bytes()
	}
	x := &rpc.Exchange{
		XID: w.xid.Add(1), Program: rpctest.Number, Version: rpctest.LowVersion, Procedure: h.procedure,
		MaxArgs: 2 << 10, Args: args,
		Sign: func(_ *rpc.Exchange, w *xdr.Writer) {
			w.Uint32(uint32(rpc.AuthGSS))
			w.Opaque(body)
			token := h.verifier
			if token == nil && c != nil {
				token = c.MIC(nil, w.Bytes())
			}
			w.Uint32(uint32(h.flavor))
			w.Opaque(token)
		},
	}
	if w.write != nil {
		w.write(message(x))
		return nil
	}
	return w.serve(message(x))
}

// make sends a token in a call, and returns the result of the call.
func (w *wire) make(proc uint32, handle, token []byte) (r result, err error) {
	c := w.call(nil, header{version: 1, proc: proc, handle: handle}, func(w *xdr.Writer) { w.Opaque(token) })
	if c.End != rpctest.Sent {
		return r, errNoAnswer
	}
	d := xdr.NewDecoder(c.Reply)
	if _, r.verifier, err = rpc.ReadReply(d); err != nil {
		return r, err
	}
	r.handle = d.Opaque(400)
	r.major, r.minor, r.window = d.Uint32(), d.Uint32(), d.Uint32()
	r.token = d.Opaque(1 << 16)
	return r, d.Finish()
}

// establish makes a context, with as many tokens as the mechanism needs.
func (s *site) establish(w *wire, m gss.Mechanism) *raw {
	s.Helper()
	i, err := m.Initiate(context.Background(), "nfs@server")
	if err != nil {
		s.Fatal(err)
	}
	token, _, err := i.Step(nil, time.Now())
	if err != nil {
		s.Fatal(err)
	}
	r, err := w.make(procInit, nil, token)
	for err == nil && r.major == uint32(gss.ContinueNeeded) {
		if token, _, err = i.Step(r.token, time.Now()); err != nil {
			break
		}
		r, err = w.make(procContinue, r.handle, token)
	}
	if err != nil || r.major != 0 {
		s.Fatalf("no context: %v, major %#x", err, r.major)
	}
	_, c, err := i.Step(r.token, time.Now())
	if err != nil {
		s.Fatal(err)
	}
	window := binary.BigEndian.AppendUint32(nil, r.window)
	if r.verifier.Flavor != rpc.AuthGSS || c.VerifyMIC(r.verifier.Body, window) != nil {
		s.Fatal("the window is not signed")
	}
	return &raw{wire: w, ctx: c, handle: r.handle}
}

// data returns the header of a BUMP under the context.
func (r *raw) data(seq, service uint32) header {
	return header{version: 1, proc: procData, seq: seq, service: service, handle: r.handle,
		procedure: rpctest.BUMP, flavor: rpc.AuthGSS}
}

// signed returns args as protected by GSSIntegrity.
func signed(c gss.Context, seq uint32, args []byte) []byte {
	inner := append(binary.BigEndian.AppendUint32(nil, seq), args...)
	w := xdr.NewWriter(make([]byte, 0, 4096))
	w.Opaque(inner)
	w.Opaque(c.MIC(nil, inner))
	return w.Bytes()
}

// sealed returns args as protected by GSSPrivacy.
func sealed(c gss.Context, seq uint32, args []byte) []byte {
	inner := append(binary.BigEndian.AppendUint32(nil, seq), args...)
	before, behind := c.WrapSize()
	token := make([]byte, before+len(inner)+behind)
	copy(token[before:], inner)
	end := before + len(inner)
	c.Wrap(token[:before], token[before:end], token[end:])
	w := xdr.NewWriter(make([]byte, 0, 4096))
	w.Opaque(token)
	return w.Bytes()
}

// put returns a function that writes b as the arguments.
func put(b []byte) func(w *xdr.Writer) { return func(w *xdr.Writer) { w.FixedOpaque(b) } }

// tag is the argument of BUMP.
var tag = []byte{0, 0, 0, 4, 't', 'a', 'g', '!'}

// answer returns the error of the call's reply, or nil for SUCCESS.
func answer(c *rpctest.Call) error {
	if c.End != rpctest.Sent {
		return errNoAnswer
	}
	_, _, err := rpc.ReadReply(xdr.NewDecoder(c.Reply))
	return err
}

func stat(err error) rpc.AcceptStat {
	var re *rpc.ReplyError
	if errors.As(err, &re) && !re.Denied {
		return re.Stat
	}
	return rpc.Success
}

// verified returns an error if the verifier of the reply is wrong.
func verified(c *rpctest.Call, ctx gss.Context, seq uint32) error {
	_, v, _ := rpc.ReadReply(xdr.NewDecoder(c.Reply))
	if v.Flavor != rpc.AuthGSS {
		return errors.New("no verifier")
	}
	return ctx.VerifyMIC(v.Body, binary.BigEndian.AppendUint32(nil, seq))
}

func words(v ...uint32) (b []byte) {
	for _, v := range v {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}
