package nfs40_test

import (
	"bytes"
	"strconv"
	"sync"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// If one request comes over many connections at once, the server executes it once, and all
// connections get the reply.
func TestOneRequestAtOnce(t *testing.T) {
	for _, hesitant = range []bool{false, true} {
		for name, make := range numbered {
			t.Run(name, func(t *testing.T) {
				f := newNumbered(t)
				ops := make(f)
				var mu sync.Mutex
				var all [][]byte
				var done sync.WaitGroup
				for range 8 {
					p := f.Site.Peer(0)
					m := p.Message("", ops...)
					done.Go(func() {
						r := p.Parse(p.End(p.Begin(m)))
						mu.Lock()
						defer mu.Unlock()
						all = append(all, body(t, r))
					})
				}
				done.Wait()
				for _, b := range all {
					if !bytes.Equal(b, all[0]) {
						t.Errorf("%x and %x", b, all[0])
					}
				}
			})
		}
	}
	hesitant = false
}

// Many owners work on one file at once. The requests of each owner succeed in their order.
func TestManyOwnersAtOnce(t *testing.T) {
	c := newClient(t)
	var done sync.WaitGroup
	for i := range 8 {
		mine := &client{peer: &peer{c.Site.Peer(0)}, id: c.id}
		o, l := mine.owner("o"+strconv.Itoa(i)), mine.locker("l"+strconv.Itoa(i))
		done.Go(func() {
			for range 20 {
				id := o.opens(t, "file", bothMode, denyNone)
				l.seqid = 1
				lock := stateID(t, o.run(t, ok, join(at("file"), l.first(o, id, wire.WriteLt, uint64(i)*10, 10))...))
				o.run(t, ok, join(at("file"), write(lock, uint64(i)*10, "0123456789"), l.unlock(lock, 0, toTheEnd), o.close(id))...)
				o.run(t, ok, l.release())
			}
		})
	}
	done.Wait()
	if u := c.State.Usage(); u.Opens != 0 || u.Locks != 0 || u.Ranges != 0 || u.Files != 0 {
		t.Errorf("left over: %+v", u)
	}
}
