package rpctest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Results has the results of a COMPOUND. Each slice has those of one kind of operation, in the
// order of the operations.
type Results struct {
	Counts []uint64 // the results of OpCount
	Data   [][]byte // the data of OpRead
	Sums   []uint32 // the CRCs of OpWrite
}

// Run makes a COMPOUND with these operations and sinks, and returns its results. It returns an
// error if they are not the results of ops in order.
func Run(k rpc.Caller, ops []Op, sinks ...[]byte) (res Results, err error) {
	x := NewExchange(COMPOUND, func(w *xdr.Writer) { PutCompound(w, ops) })
	x.MaxResults = 4 + len(ops)*opWords
	// MaxResults includes the payloads, because a transport without direct data placement returns
	// them in the message.
	for _, op := range ops {
		if op.Code == OpRead {
			x.MaxResults += padded(op.N)
		}
	}
	if len(sinks) > 0 {
		x.Sinks = sinks
		x.Locate = func(d xdr.Decoder) (position, length int) { return locateFirst(d, ops) }
	}
	err = rpc.Do(context.Background(), k, x, func(d *xdr.Decoder) error {
		if n := d.Uint32(); int(n) != len(ops) {
			return fmt.Errorf("results of %d operations instead of %d", n, len(ops))
		}
		for i, op := range ops {
			if code := d.Uint32(); code != op.Code {
				return fmt.Errorf("result %d is of operation %d, not %d (%v)", i, code, op.Code, d.Err())
			}
			switch op.Code {
			case OpCount:
				res.Counts = append(res.Counts, d.Uint64())
			case OpRead:
				res.Data = append(res.Data, bytes.Clone(d.EligibleOpaque(MaxData)))
			case OpWrite:
				if n := d.Uint32(); int(n) != len(op.Data) {
					return fmt.Errorf("result %d: %d bytes were written of %d", i, n, len(op.Data))
				}
				res.Sums = append(res.Sums, d.Uint32())
			}
		}
		return d.Finish()
	})
	return res, err
}

// locateFirst returns the position and the length of the data of the first OpRead, or 0. d reads
// results that may be cut off.
func locateFirst(d xdr.Decoder, ops []Op) (position, length int) {
	d.Uint32()
	for _, op := range ops {
		d.Uint32()
		switch op.Code {
		case OpCount, OpWrite:
			d.Uint64()
		case OpRead:
			length = int(d.Uint32())
			if d.Err() != nil {
				return 0, 0
			}
			return d.Position(), length
		}
	}
	return 0, 0
}

// compounds tests that a COMPOUND continues at the operation that interrupted it, Blocking or
// Pending, and executes no operation twice.
func compounds(t *testing.T, p *Program, k rpc.Caller) {
	data := [][]byte{Pattern(make([]byte, 3001)), Pattern(make([]byte, 70_000))}
	ops := []Op{
		{Code: OpCount}, {Code: OpRead, N: 501}, {Code: OpWrite, Data: data[0]}, {Code: OpCount},
		{Code: OpRead, N: 90_000}, {Code: OpWrite, Data: data[1]}, {Code: OpCount},
	}
	check := func(name string) {
		t.Helper()
		before := p.Steps.Load()
		res, err := Run(k, ops)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if n := p.Steps.Load() - before; n != int64(len(ops)) {
			t.Errorf("%s: %d operations executed of %d", name, n, len(ops))
		}
		for i, at := range []uint64{1, 4, 7} {
			if got := res.Counts[i] - uint64(before); got != at {
				t.Errorf("%s: operation %d was number %d", name, at, got)
			}
		}
		for i, n := range []int{501, 90_000} {
			if !bytes.Equal(res.Data[i], Pattern(make([]byte, n))) {
				t.Errorf("%s: read %d other bytes instead of %d", name, len(res.Data[i]), n)
			}
		}
		for i, b := range data {
			if res.Sums[i] != crc32.ChecksumIEEE(b) {
				t.Errorf("%s: other bytes arrived instead of %d", name, len(b))
			}
		}
	}
	for how, name := range []string{"straight", "blocking", "pending"} {
		for at := range ops {
			clearHow(ops)
			ops[at].How = uint32(how)
			check(fmt.Sprintf("%s at %d", name, at))
		}
	}
	for i := range ops {
		ops[i].How = uint32(i) % 3
	}
	check("all ways in turn")
	for i := range ops {
		ops[i].How = Pending
	}
	check("pending at each")
}

func clearHow(ops []Op) {
	for i := range ops {
		ops[i].How = Straight
	}
}

// severalReads tests that each eligible result goes into its own sink and is not longer than that
// sink, even if an earlier result is shorter than requested.
func severalReads(t *testing.T, k rpc.Caller) {
	ops := []Op{{Code: OpRead, N: 5000}, {Code: OpRead, N: 5000}, {Code: OpCount}, {Code: OpRead, N: 5000}}
	for _, sizes := range [][]int{{5000, 5000, 5000}, {5001, 100, 5000}, {4, 0, 8192}, {5000}, {5000, 3}, {64 << 10, 1, 1}} {
		for _, how := range []uint32{Straight, Blocking, Pending} {
			for i := range ops {
				ops[i].How = how
			}
			var sinks [][]byte
			for _, n := range sizes {
				sinks = append(sinks, make([]byte, n))
			}
			res, err := Run(k, ops, sinks...)
			if err != nil {
				t.Errorf("sinks of %v, how %d: %v", sizes, how, err)
				continue
			}
			for i, b := range res.Data {
				if len(b) > 5000 || !bytes.Equal(b, Pattern(make([]byte, len(b)))) {
					t.Errorf("sinks of %v, how %d: result %d is %d other bytes", sizes, how, i, len(b))
				}
			}
		}
	}
}

// stalledCompound tests that a COMPOUND that waits does not execute its earlier operations again,
// and does not delay other calls.
func stalledCompound(t *testing.T, p *Program, k rpc.Caller) {
	lane := p.freshLane()
	if err := Echo(k, 1); err != nil {
		t.Fatal(err)
	}
	before := p.Steps.Load()
	done := make(chan error, 1)
	var counts []uint64
	go func() {
		res, err := Run(k, []Op{{Code: OpCount}, {Code: OpStall, N: lane}, {Code: OpCount}})
		counts = res.Counts
		done <- err
	}()
	<-p.Arrived(lane)
	if n := p.Steps.Load() - before; n != 1 {
		t.Errorf("%d operations before the one that stalls", n)
	}
	if err := Echo(k, 100); err != nil {
		t.Error(err)
	}
	p.Release(lane)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := p.Steps.Load() - before; n != 3 || counts[0] != uint64(before)+1 || counts[1] != uint64(before)+3 {
		t.Errorf("%d operations, numbers %v from %d on", n, counts, before)
	}
}
