package tcp

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// benchRecord returns a record like that of a GETATTR: the payload stands for the credential and
// handle of the call, and for the attributes of the reply.
func benchRecord(payload int) []byte {
	m := rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, payload)) })
	return append(binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(m))), m...)
}

// pump sends b.N records, depth of them at a time, and reads their replies of reply bytes each.
func pump(b *testing.B, c net.Conn, record []byte, depth, reply int) {
	var batch []byte
	for range depth {
		batch = append(batch, record...)
	}
	in := make([]byte, depth*reply)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += depth {
		if _, err := c.Write(batch); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkBareEcho echoes records without RPC, for comparison with BenchmarkSmallCalls.
func BenchmarkBareEcho(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth%d", depth), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				in, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
				have := 0
				for {
					n, err := c.Read(in[have:])
					if err != nil {
						return
					}
					have += n
					at := 0
					out = out[:0]
					for have-at >= 4 {
						n, _ := mark(in[at:])
						if have-at < 4+n {
							break
						}
						out = append(out, in[at:at+4+n]...)
						at += 4 + n
					}
					have = copy(in, in[at:have])
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			record := benchRecord(88)
			pump(b, c, record, depth, len(record))
			c.Close()
			<-done
		})
	}
}

// BenchmarkSmallCalls makes small calls over one connection. The receiving goroutine serves them
// itself.
func BenchmarkSmallCalls(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth%d", depth), func(b *testing.B) {
			f := start(b, Config{})
			record := benchRecord(88)
			pump(b, f.raw(), record, depth, markSize+24+4+88)
		})
	}
}

// BenchmarkLargeResults fetches large results. Each is sent by one write, without a copy.
func BenchmarkLargeResults(b *testing.B) {
	f := start(b, Config{})
	m := rpctest.Message(1, rpctest.SAME, u32(1<<20))
	record := append(binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(m))), m...)
	b.SetBytes(1 << 20)
	pump(b, f.raw(), record, 4, markSize+24+4+1<<20)
}

// BenchmarkBareStream sends as many bytes as BenchmarkLargeResults, without RPC.
func BenchmarkBareStream(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 1<<20)
		for range b.N {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := make([]byte, 4<<20)
	b.SetBytes(1 << 20)
	b.ResetTimer()
	for got := 0; got < b.N<<20; {
		n, err := c.Read(in)
		if err != nil {
			b.Fatal(err)
		}
		got += n
	}
}
