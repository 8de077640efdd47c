package version2

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	iwarpwire "github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// terminate refuses an RDMA Read or an RDMA Write of the other side, as if it named no memory of this side. It waits until
// the other side has ended the connection.
func (p peer) terminate(f rawpeer.FPDU) {
	p.T.Helper()
	term := iwarpwire.Termination{Cause: iwarpwire.RDMAPInvalidSTag, SegmentLength: uint16(len(f.ULPDU))}
	if f.Op == iwarpwire.ReadRequest {
		term.DDP, term.RDMAP = bytes.Clone(f.ULPDU[:iwarpwire.UntaggedSize]), bytes.Clone(f.Payload)
	} else {
		term.DDP = bytes.Clone(f.ULPDU[:iwarpwire.TaggedSize])
	}
	p.WriteFPDU(rawpeer.Terminate(term))
	if _, err := io.Copy(io.Discard, p.Conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.T.Fatal(err)
	}
}

// An RDMA operation of a call fails, which ends the connection. When the client has connected again, the same call gets an
// RDMA2_ERROR, and does not end the new connection: other calls are served there. Row V2-86 of docs/conformance.md.
func TestCallThatHasEndedAConnection(t *testing.T) {
	get := rpctest.Message(7, rpctest.GET, func(w *xdr.Writer) { w.Uint32(500) })
	data, position := put(7, 5001)
	for name, m := range map[string][]byte{
		"Write": call(7, wire.Lists{Writes: [][]wire.Segment{{{Handle: 9, Length: 500}}}}, get),
		"Read":  call(7, wire.Lists{Reads: []wire.ReadSegment{{Position: position, Segment: wire.Segment{Handle: 9, Length: 5001}}}}, data),
	} {
		t.Run(name, func(t *testing.T) {
			r := newResponder(t, rdma.Config{Version2: true})
			p := r.dial(t)
			p.send(final(0x5e7))
			p.wantFinal()
			p.send(m)
			p.terminate(p.next())
			await.Until(t, "the connection has ended", func() bool { return r.server.Stats().Connections.Load() == 0 })
			p = r.dial(t)
			p.send(final(0x5e7))
			p.wantFinal()
			p.send(m)
			p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2System})
			p.wantCount(0x77, 1)
		})
	}
}

// A client whose device answers no RDMA Reads offers a Read chunk: the responder cannot use any, and says so. Row V2-88 of
// docs/conformance.md.
func TestNoReadChunks(t *testing.T) {
	raw := rawpeer.Dial(t, newResponder(t, rdma.Config{Version2: true}).addr)
	request := rawpeer.LinuxRequest()
	request.Enhanced = &iwarpwire.Enhanced{IRD: 0}
	raw.Initiate(request)
	p := peer{raw}
	p.send(final(0x5e7))
	p.wantFinal()
	rpcMessage, position := put(7, 5001)
	p.send(call(7, wire.Lists{Reads: []wire.ReadSegment{{Position: position, Segment: wire.Segment{Handle: 9, Length: 5001}}}}, rpcMessage))
	p.wantError(7, wire.Version2, wire.ErrorBody2{Code: wire.Err2ReadChunks, Max: 0})
	p.wantCount(0x77, 1)
}
