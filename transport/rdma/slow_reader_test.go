package rdma

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A peer that reads steadily keeps its connection, although its replies take longer over its link
// than a peer may stall. The test scales 128 READs of 1 MiB at 4 MB/s with a deadline of 30 s down
// to 24 READs at 8 MB/s with a deadline of one second.
func TestSteadyReaderIsServed(t *testing.T) {
	const calls, size, stall = 24, rpctest.MaxData, time.Second
	device, err := iwarp.New(iwarp.Config{StallTimeout: stall})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, benchConfig{device: device})
	raw := rawpeer.Dial(t, b.addr)
	raw.Conn.SetReadBuffer(128 << 10)
	raw.Initiate(rawpeer.LinuxRequest())
	all := [][]byte{rawpeer.Ready()}
	for i := range uint32(calls) {
		all = append(all, raw.Send(message{
			xid: 100 + i, writes: [][]wire.Segment{{seg(77, size, 0)}},
			payload: rpctest.Message(100+i, rpctest.GET, count(size)),
		}.bytes()))
	}
	raw.WriteFPDU(all...)
	buf := make([]byte, 80<<10)
	longest := time.Duration(0)
	for got := 0; got < calls*size; {
		at := time.Now()
		n, err := raw.Conn.Read(buf)
		if err != nil {
			if longest >= stall/2 {
				t.Skipf("this machine let the reader wait for %v", longest)
			}
			t.Fatalf("with %d of %d bytes read, and never more than %v between two reads: %v; stalled: %d",
				got, calls*size, longest, err, b.server.Stats().Count(faultStalled))
		}
		got += n
		time.Sleep(time.Duration(n) * time.Second / 8e6)
		longest = max(longest, time.Since(at))
	}
}
