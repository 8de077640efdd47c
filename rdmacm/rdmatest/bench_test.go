package rdmatest

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// echo is a Handler that sends each message back to its sender.
type echo struct {
	conn func() rdmacm.Conn
	got  chan struct{}
}

func (e echo) Received(r *rdmacm.Recv) {
	if e.got != nil {
		r.Release()
		e.conn().Provide(1, 128)
		e.got <- struct{}{}
		return
	}
	e.conn().Provide(1, 128)
	e.conn().Post(&rdmacm.Chain{
		Work: []rdmacm.Work{SendOf(r.Bytes)},
		Done: func(*rdmacm.Chain, error, int) { r.Release() },
	})
}
func (e echo) Closed(error) {}

// BenchmarkRoundTrip measures the provider's time for a round trip of two small messages. 16
// round trips are under way at a time.
func BenchmarkRoundTrip(b *testing.B) {
	const depth = 16
	p := NewConfig(Config{Quiet: true})
	l, err := p.Listen(anywhere)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	param := rdmacm.ConnParam{Receives: depth, ReceiveSize: 128}
	var server rdmacm.Conn
	up := make(chan struct{})
	go func() {
		r, err := l.Accept()
		if err != nil {
			return
		}
		param := param
		param.Handler = echo{conn: func() rdmacm.Conn { <-up; return server }}
		server, _ = r.Accept(param)
		close(up)
	}()
	var client rdmacm.Conn
	dialed := make(chan struct{})
	got := make(chan struct{}, depth)
	param.Handler = echo{conn: func() rdmacm.Conn { <-dialed; return client }, got: got}
	if client, err = p.Dial(b.Context(), anywhere, param); err != nil {
		b.Fatal(err)
	}
	close(dialed)
	message := make([]byte, 128)
	call := func() {
		client.Post(&rdmacm.Chain{
			Work: []rdmacm.Work{SendOf(message)},
			Done: func(*rdmacm.Chain, error, int) {},
		})
	}
	for range depth {
		call()
	}
	for b.Loop() {
		<-got
		call()
	}
	client.Abort(nil)
	<-client.Done()
	<-up
	<-server.Done()
}
