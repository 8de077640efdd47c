package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// NFS4 makes the usual requests of NFS version 4.1 and 4.2 on a Session. Each method waits for
// the reply, or for the end of its context. An error is an *OpError if the server refused an
// operation. The caller may keep everything that a method returns. Methods may be called from any
// goroutine.
type NFS4 struct {
	Session *Session
	// Patient makes each method repeat a request until the context ends, if the server asks to try
	// later (NFS4ERR_DELAY), or refuses because clients may still reclaim (NFS4ERR_GRACE).
	Patient bool
}

// NFS4 returns an NFS4 that makes its requests on s.
func (s *Session) NFS4() NFS4 { return NFS4{Session: s} }

// The first and the longest time that a patient NFS4 (see NFS4.Patient) waits before it repeats a
// request.
const (
	patienceFirst = 20 * time.Millisecond
	patienceMost  = time.Second
)

func (n NFS4) do(ctx context.Context, c *Compound, take func() error) error {
	for wait := patienceFirst; ; wait = min(2*wait, patienceMost) {
		err := n.Session.Do(ctx, c, take)
		status := StatusOf(err)
		if !n.Patient || status != nfs4wire.NFS4ErrDelay && status != nfs4wire.NFS4ErrGrace || !sleep(ctx, wait) {
			return err
		}
	}
}

// change makes a request of one operation on a file. The server keeps the reply, so that the request
// is never executed twice.
func (n NFS4) change(ctx context.Context, file Handle, op Op) error {
	return n.do(ctx, &Compound{Cache: true, Ops: []Op{put(file), op}}, nil)
}

// put returns the operation that makes file the current file. nil stands for the server's root.
func put(file Handle) Op {
	if file == nil {
		return Op{Number: nfs4wire.OpPutRootFH}
	}
	return Op{Number: nfs4wire.OpPutFH, Args: &nfs4wire.PutFH4Args{Object: nfs4wire.NFSFH4(file)}}
}

// lookup returns the operation that makes a name in the current directory the current file.
func lookup(name string) Op {
	return Op{Number: nfs4wire.OpLookup, Args: &nfs4wire.Lookup4Args{Objname: nfs4wire.UTF8String(name)}}
}

// nameArgs returns an upper bound for the arguments of a compound with these names, in bytes.
func nameArgs(names ...string) int {
	n := defaultMaxArgs
	for _, name := range names {
		n += len(name) + 8
	}
	return n
}

// walkAtOnce is the largest number of names that one request looks up. The request's other three
// operations are SEQUENCE, PUTFH and GETFH.
const walkAtOnce = maxOperations - 3

// Walk looks up a path below dir, and returns the handle of the file at its end. A nil dir
// is the server's root.
func (n NFS4) Walk(ctx context.Context, dir Handle, path string) (Handle, error) {
	names := slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
	for {
		some := names[:min(len(names), walkAtOnce)]
		names = names[len(some):]
		ops := []Op{put(dir)}
		for _, name := range some {
			ops = append(ops, lookup(name))
		}
		var res nfs4wire.GetFH4Res
		ops = append(ops, Op{Number: nfs4wire.OpGetFH, Res: &res})
		err := n.do(ctx, &Compound{Ops: ops, MaxArgs: nameArgs(some...)}, func() error {
			dir = slices.Clone(Handle(res.ResOK.Object))
			return nil
		})
		if err != nil || len(names) == 0 {
			return dir, err
		}
	}
}
