package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

func TestCalls(t *testing.T) {
	f := start(t, Config{})
	c := f.dial(DialConfig{})
	ctx := context.Background()
	t.Run("null", func(t *testing.T) {
		if err := rpc.Do(ctx, c, exchange(rpctest.NULL, nil), nil); err != nil {
			t.Fatal(err)
		}
	})
	for _, n := range []int{0, 1, 3, 4, 4000, rpctest.MaxEcho} {
		t.Run(fmt.Sprintf("echo %d", n), func(t *testing.T) {
			want := rpctest.Pattern(make([]byte, n))
			err := rpc.Do(ctx, c, exchange(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(want) }), func(d *xdr.Decoder) error {
				if got := d.Opaque(xdr.NoLimit); !bytes.Equal(got, want) {
					t.Errorf("got %d other bytes", len(got))
				}
				return d.Finish()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, n := range []int{0, 1, 5000, 30 << 10, 32 << 10, 40 << 10, 64 << 10, 64<<10 + 1, 1<<20 - 3, 1 << 20} {
		t.Run(fmt.Sprintf("get %d", n), func(t *testing.T) {
			want := rpctest.Pattern(make([]byte, n))
			err := rpc.Do(ctx, c, exchange(rpctest.GET, u32(uint32(n))), func(d *xdr.Decoder) error {
				if got := d.EligibleOpaque(xdr.NoLimit); !bytes.Equal(got, want) {
					t.Errorf("got %d other bytes", len(got))
				}
				return d.Finish()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		t.Run(fmt.Sprintf("get %d into a sink", n), func(t *testing.T) {
			want := rpctest.Pattern(make([]byte, n))
			x := exchange(rpctest.GET, u32(uint32(n)))
			sink := make([]byte, n)
			x.Sinks = [][]byte{sink}
			x.Locate = func(d xdr.Decoder) (int, int) {
				n := int(d.Uint32())
				return d.Position(), n
			}
			err := rpc.Do(ctx, c, x, func(d *xdr.Decoder) error {
				got := d.EligibleOpaque(xdr.NoLimit)
				if !bytes.Equal(got, want) {
					t.Errorf("got %d other bytes", len(got))
				}
				if n > ringRecord && &got[0] != &sink[0] {
					t.Error("the result is not in the sink")
				}
				return d.Finish()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		t.Run(fmt.Sprintf("put %d", n), func(t *testing.T) {
			data := rpctest.Pattern(make([]byte, n))
			err := rpc.Do(ctx, c, exchange(rpctest.PUT, func(w *xdr.Writer) {
				w.String("name")
				w.Payload(data, true, nil)
			}), func(d *xdr.Decoder) error {
				if got, sum := d.Uint32(), d.Uint32(); got != uint32(n) || sum != crc32.ChecksumIEEE(data) {
					t.Errorf("%d bytes arrived, or other ones", got)
				}
				return d.Finish()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("wide", func(t *testing.T) {
		err := rpc.Do(ctx, c, exchange(rpctest.WIDE, u32(rpctest.MaxWide)), func(d *xdr.Decoder) error {
			if got := d.Opaque(xdr.NoLimit); !bytes.Equal(got, rpctest.Pattern(make([]byte, rpctest.MaxWide))) {
				t.Errorf("got %d other bytes", len(got))
			}
			return d.Finish()
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Run("later", func(t *testing.T) {
		if err := rpc.Do(ctx, c, exchange(rpctest.LATER, u32(5)), func(d *xdr.Decoder) error {
			if d.Uint32() != 5 {
				t.Error("another number")
			}
			return d.Finish()
		}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		x := exchange(99, nil)
		var re *rpc.ReplyError
		if err := rpc.Do(ctx, c, x, nil); !errors.As(err, &re) || re.Stat != rpc.AcceptProcUnavail {
			t.Fatal(err)
		}
	})
}

// A reply is sent when its call ends, with that call's XID. So later calls may overtake calls that
// stall, and these may overtake each other.
func TestRepliesOutOfOrder(t *testing.T) {
	const stalled = 20
	f := start(t, Config{})
	c := f.dial(DialConfig{})
	type reply struct {
		lane uint32
		err  error
	}
	held := stalled // the lanes below held are not released yet
	release := func() {
		held--
		f.program.Release(uint32(held))
	}
	t.Cleanup(func() { // if the test failed, the server still waits for its calls
		for held > 0 {
			release()
		}
	})
	var done [stalled]chan reply
	for lane := range uint32(stalled) {
		done[lane] = make(chan reply, 1)
		x := exchange(rpctest.STALL, u32(lane))
		x.Done = func(x *rpc.Exchange) { done[lane] <- reply{x.Results.Uint32(), x.Err} }
		c.Start(x)
	}
	for lane := range uint32(stalled) {
		await.Receive(t, "a call stalls", f.program.Arrived(lane))
	}
	ended := func() (n int) {
		for _, d := range done {
			n += len(d)
		}
		return n
	}
	for n := range uint64(100) {
		results := make(chan uint64, 1)
		x := exchange(rpctest.BUMP, func(w *xdr.Writer) { w.Opaque(nil) })
		x.Done = func(x *rpc.Exchange) { results <- x.Results.Uint64() }
		c.Start(x)
		if got := await.Receive(t, "a call overtakes those that stall", results); got != n+1 {
			t.Fatalf("call %d has the results of call %d", n+1, got)
		}
	}
	if n := ended(); n != 0 {
		t.Errorf("%d calls ended that stall", n)
	}
	// Release the last lane first.
	for lane := stalled - 1; lane >= 0; lane-- {
		release()
		if r := await.Receive(t, "a call goes on", done[lane]); r.lane != uint32(lane) || r.err != nil {
			t.Errorf("the call in lane %d: lane %d, %v", lane, r.lane, r.err)
		}
		if n := ended(); n != 0 {
			t.Errorf("%d calls ended whose lane is not released", n)
		}
	}
}
