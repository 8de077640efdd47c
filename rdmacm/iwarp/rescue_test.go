package iwarp

import (
	"io"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Deregister may run while the sender adds Sends to the batch that answers RDMA Reads of other
// memory. The race detector checks this.
func TestDeregisterWhileTheSenderAnswers(t *testing.T) {
	f := rawpeer.LinuxRequest()
	f.Enhanced.ORD = 64
	raw, s, _ := passiveOn(t, listen(t, provider(t, Config{})), f, nil)
	raw.WriteFPDU(rawpeer.Ready())
	go io.Copy(io.Discard, raw.Conn)
	source := s.expose(make([]byte, 4096), rdmacm.RemoteRead)
	const rounds, reads = 300, 8
	stop := make(chan struct{})
	done := make(chan struct{}, 2)
	go func() { // the ULP exposes memory for each call, and revokes it
		defer func() { done <- struct{}{} }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := s.Register(make([]byte, 64), rdmacm.RemoteRead)
			if err != nil {
				t.Error(err)
				return
			}
			if err := r.Deregister(); err != nil {
				t.Error(err)
			}
		}
	}()
	go func() { // the ULP sends
		defer func() { done <- struct{}{} }()
		back := make(chan struct{}, 64)
		for range cap(back) {
			back <- struct{}{}
		}
		for {
			select {
			case <-stop:
				return
			case <-back:
			}
			s.Post(&rdmacm.Chain{Work: []rdmacm.Work{send(make([]byte, 900))}, Done: func(*rdmacm.Chain, error, int) { back <- struct{}{} }})
		}
	}()
	all := uint64(len(raw.Bytes(rawpeer.Ready())))
	for range rounds {
		for range reads {
			request := raw.ReadRequest(wire.Read{SinkSTag: 5, Size: 4096, SourceSTag: source.STag(), SourceOffset: source.Offset()})
			all += uint64(len(raw.Bytes(request)))
			raw.WriteFPDU(request)
		}
		await.Until(t, "the Reads are answered", func() bool {
			return s.rx.arrived.Load() == all && s.tx.answering.Load() == 0
		})
	}
	close(stop)
	<-done
	<-done
}
