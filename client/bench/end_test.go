package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// jukebox is a server that answers each call with NFS3ERR_JUKEBOX.
type jukebox struct{ calls int }

func (j *jukebox) Cancel(*rpc.Exchange, error) {}
func (j *jukebox) Start(x *rpc.Exchange) {
	j.calls++
	w := xdr.NewWriter(make([]byte, 0, 16))
	w.Uint32(uint32(nfs3wire.NFS3ErrJukebox))
	x.Results.Reset(w.Bytes(), 0, nil)
	x.Done(x)
}

// A slot does not flood a server that asks to try later, and repeats nothing after the end.
func TestSlotHeedsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(jukebox)
		work := workloads["getattr"]
		b := &bench{kind: work.kind, unlimited: true, start: time.Now()}
		s := newSlot3(b, work, server, newConn(0), 0)
		b.running.Add(1)
		s.begin(0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if server.calls > 20 {
			t.Errorf("%d calls in 10 s", server.calls)
		}
		before := server.calls
		b.stop.Store(true)
		b.running.Wait()
		if server.calls != before {
			t.Errorf("%d calls after the end", server.calls-before)
		}
	})
}

// hanging is a protocol whose server has stopped to answer. Its requests end when it is abandoned.
type hanging struct {
	protocol
	ended chan struct{}
}

func (h *hanging) abandon() { close(h.ended) }

func (h *hanging) atOnce() int {
	select {
	case <-h.ended:
		return 0 // the connections are gone
	default:
		return 7
	}
}

func (h *hanging) rdma() (i rdma.Info, ok bool) { return i, false }

// A measurement ends although its server does not answer any more, and says so. The time until then is not part of it, and
// what the connections said of themselves is known.
func TestMeasurementEndsWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{ended: make(chan struct{})}
		b := &bench{cfg: Config{Duration: time.Second, Timeout: time.Second}, nfs: h, start: time.Now()}
		b.active.Store(7)
		b.watch(context.Background(), h.ended)
		if b.err == nil || !strings.Contains(b.err.Error(), "7 calls unanswered") {
			t.Errorf("ended with %v", b.err)
		}
		if b.until != time.Second || b.atOnce != 7 {
			t.Errorf("measured for %v with %d calls at once, want 1 s and 7", b.until, b.atOnce)
		}
	})
}

// The result says how many requests were in progress, if the server allows less than was asked for.
func TestResultTellsTheRequestsInProgress(t *testing.T) {
	for atOnce, want := range map[int]int{2: 2, 1000: 64} {
		b := &bench{cfg: Config{Depth: 32, Connections: 2, Target: client.Target{Transport: client.TCP}}, atOnce: atOnce}
		m := b.result(time.Second, 0)
		var text strings.Builder
		m.Print(&text)
		if told := strings.Contains(text.String(), "in progress"); m.InProgress != want || told != (want < 64) {
			t.Errorf("the server allows %d: %d in progress, told %v", atOnce, m.InProgress, told)
		}
	}
}

// slow is a protocol whose server takes its time for each name, and never answers for the name "hangs".
type slow struct {
	protocol
	takes   time.Duration
	removed []string
}

func (s *slow) Walk(ctx context.Context, dir client.Handle, path string) (client.Handle, error) {
	return client.Handle(path), s.work(ctx, path)
}

func (s *slow) list(ctx context.Context, dir client.Handle) ([]string, error) {
	return []string{"a", "b"}, s.work(ctx, string(dir))
}

func (s *slow) Remove(ctx context.Context, dir client.Handle, name string) error {
	return s.remove(ctx, string(dir)+"/"+name)
}

func (s *slow) Rmdir(ctx context.Context, dir client.Handle, name string) error {
	return s.remove(ctx, string(dir)+"/"+name)
}

func (s *slow) remove(ctx context.Context, name string) error {
	err := s.work(ctx, name)
	if err == nil {
		s.removed = append(s.removed, name)
	}
	return err
}

func (s *slow) work(ctx context.Context, name string) error {
	wait := s.takes
	if strings.Contains(name, "hangs") {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Each name that the bench removes has a time limit of its own: many slow ones are all removed, and one that hangs costs
// no more than its own limit.
func TestEachRemovalHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		s := &slow{takes: limit * 9 / 10}
		b := &bench{cfg: Config{Timeout: limit}}
		b.name, b.made, b.root = "top", []string{"1", "hangs", "2", "3"}, client.Handle("root")
		begin := time.Now()
		err := b.removeAll(context.Background(), s)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if want := []string{"top/1", "top/2", "top/3", "root/top"}; !slices.Equal(s.removed, want) {
			t.Errorf("removed %v, want %v", s.removed, want)
		}
		if d, want := time.Since(begin), 5*s.takes+limit; d != want { // the walk, four names, and the one that hangs
			t.Errorf("took %v of the bubble's clock, want %v", d, want)
		}
	})
}
