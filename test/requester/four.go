package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// four is a session with a server of NFSv4.1 or 4.2, and a directory there.
type four struct {
	ctx  context.Context
	w    work
	nfs  client.NFS4
	root client.Handle
}

// minors are the minor versions, by the values of the flag --nfs.
var minors = map[string]uint32{"4.1": 1, "4.2": 2}

// runFour runs each step in a new session.
func (w work) runFour(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(s four) error
	}{
		{"transfers", four.transfers},
		{"names", four.names},
		{"locks", four.locks},
		{"recall", four.recall},
	} {
		start := time.Now()
		if err := w.inSession(ctx, client.Callbacks{}, step.do); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s: %s\n", step.name, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// inSession calls the function do with a session of two connections.
func (w work) inSession(ctx context.Context, callbacks client.Callbacks, do func(s four) error) error {
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: client.Target{Transport: w.transport, Host: w.host, Port: w.port, RDMAVersion: w.version, Cred: client.Self()},
		Minor:  minors[w.nfs], Connections: 2, Callbacks: callbacks,
	})
	if err != nil {
		return err
	}
	n := client.NFS4{Session: s, Patient: true}
	root, err := n.Walk(ctx, nil, w.export)
	if err == nil {
		err = do(four{ctx, w, n, root})
	}
	if ended := s.Close(); err == nil {
		err = ended
	}
	return err
}

func (s four) open(name string, access uint32) (client.Opened4, error) {
	return s.nfs.Open(s.ctx, client.Open4{
		Dir: s.root, Name: name, Owner: []byte("requester"), Access: access,
		Create: &nfs4wire.Createhow4{Mode: nfs4wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
}

// transfers makes WRITEs and READs of each size, and then many WRITEs and READs of 1 MiB at the
// same time.
func (s four) transfers() error {
	o, err := s.open("sized", nfs4wire.Open4ShareAccessBoth)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		data := pattern(uint64(i), n)
		if err := s.nfs.Setattr(s.ctx, o.File, o.StateID, client.SizeAttribute(0)); err != nil {
			return err
		}
		if err := s.thereAndBack(o, 0, data, nfs4wire.FileSync4); err != nil {
			return err
		}
	}
	ended := make(chan error, s.w.rounds)
	for i := range s.w.rounds {
		go func() { ended <- s.thereAndBack(o, uint64(i)*mib, pattern(uint64(i), mib), nfs4wire.Unstable4) }()
	}
	for range s.w.rounds {
		if e := <-ended; err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	if _, err := s.nfs.Commit(s.ctx, o.File, 0, 0); err != nil {
		return err
	}
	if err := s.nfs.CloseFile(s.ctx, o.File, o.StateID); err != nil {
		return err
	}
	return s.nfs.Remove(s.ctx, s.root, "sized")
}

// thereAndBack writes data, and checks that READ returns the same data.
func (s four) thereAndBack(o client.Opened4, offset uint64, data []byte, stable nfs4wire.StableHow4) error {
	for at := 0; at < len(data); {
		w, err := s.nfs.Write(s.ctx, o.File, o.StateID, offset+uint64(at), data[at:], stable)
		if err != nil || w.Count == 0 {
			return fmt.Errorf("WRITE of %d bytes at %d wrote %d: %w", len(data), offset, w.Count, err)
		}
		at += w.Count
	}
	got := make([]byte, len(data))
	for at := 0; at < len(got); {
		n, _, err := s.nfs.Read(s.ctx, o.File, o.StateID, offset+uint64(at), got[at:])
		if err != nil || n == 0 {
			return fmt.Errorf("READ of %d bytes at %d gave %d: %w", len(got), offset, n, err)
		}
		at += n
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("%d bytes at %d are not those that were written", len(data), offset)
	}
	return nil
}

// names creates, lists, renames and removes files with names of 255 bytes. There are enough of them
// for several READDIR replies.
func (s four) names() error {
	dir, err := s.nfs.Mkdir(s.ctx, s.root, strings.Repeat("d", maxName), 0o755)
	if err != nil {
		return err
	}
	s.root = dir
	name := func(i int) string { return fmt.Sprintf("%0*d", maxName, i) }
	for i := range s.w.names {
		o, err := s.open(name(i), nfs4wire.Open4ShareAccessWrite)
		if err != nil {
			return err
		}
		if err := s.nfs.CloseFile(s.ctx, o.File, o.StateID); err != nil {
			return err
		}
	}
	seen := 0
	for e, err := range s.nfs.Readdir(s.ctx, dir, client.StatAttributes) {
		if err != nil {
			return err
		}
		if e.Attributes.Type != nfs4wire.NF4Reg {
			return fmt.Errorf("%q is a %v", e.Name, e.Attributes.Type)
		}
		seen++
	}
	if seen != s.w.names {
		return fmt.Errorf("%d names are listed, not %d", seen, s.w.names)
	}
	if err := s.nfs.Rename(s.ctx, dir, name(0), dir, strings.Repeat("r", maxName)); err != nil {
		return err
	}
	if err := s.nfs.Rename(s.ctx, dir, strings.Repeat("r", maxName), dir, name(0)); err != nil {
		return err
	}
	for i := range s.w.names {
		if err := s.nfs.Remove(s.ctx, dir, name(i)); err != nil {
			return err
		}
	}
	root, err := s.nfs.Walk(s.ctx, nil, s.w.export)
	if err != nil {
		return err
	}
	return s.nfs.Remove(s.ctx, root, strings.Repeat("d", maxName))
}

// locks locks ranges, tests conflicts, and unlocks the ranges.
func (s four) locks() error {
	o, err := s.open("locked", nfs4wire.Open4ShareAccessBoth)
	if err != nil {
		return err
	}
	all := client.Range4{Length: nfs4wire.NFS4Maxfilelen}
	first, err := s.nfs.Lock(s.ctx, o.File, o.StateID, []byte("first"), nfs4wire.WriteLt, client.Range4{Offset: 10, Length: 10})
	if err != nil {
		return err
	}
	if _, err := s.nfs.Lock(s.ctx, o.File, o.StateID, []byte("second"), nfs4wire.ReadLt, all); client.StatusOf(err) != nfs4wire.NFS4ErrDenied {
		return fmt.Errorf("a lock over another: %w", err)
	}
	if first, err = s.nfs.LockMore(s.ctx, o.File, first, nfs4wire.WriteLt, all); err != nil {
		return err
	}
	if _, err = s.nfs.Unlock(s.ctx, o.File, first, nfs4wire.WriteLt, all); err != nil {
		return err
	}
	if err := s.nfs.CloseFile(s.ctx, o.File, o.StateID); err != nil {
		return err
	}
	return s.nfs.Remove(s.ctx, s.root, "locked")
}

// recall makes a second client open a file of which the first client has a delegation, if the
// server grants one. The server must recall the delegation.
func (s four) recall() error {
	o, err := s.open("delegated", nfs4wire.Open4ShareAccessBoth)
	if err != nil {
		return err
	}
	if err := s.nfs.CloseFile(s.ctx, o.File, o.StateID); err != nil {
		return err
	}
	recalls := make(chan client.Recall, 1)
	err = s.w.inSession(s.ctx, client.Callbacks{Recall: func(r client.Recall) nfs4wire.NFSStat4 {
		select {
		case recalls <- r:
		default: // this delegation was already recalled
		}
		return nfs4wire.NFS4OK
	}}, func(holder four) error { return s.recallFrom(holder, recalls) })
	if err != nil {
		return err
	}
	return s.nfs.Remove(s.ctx, s.root, "delegated")
}

func (s four) recallFrom(holder four, recalls <-chan client.Recall) error {
	held, err := holder.nfs.Open(s.ctx, client.Open4{
		Dir: holder.root, Name: "delegated", Owner: []byte("holder"), Access: nfs4wire.Open4ShareAccessRead | nfs4wire.Open4ShareAccessWantReadDeleg,
	})
	if err != nil {
		return err
	}
	if held.DelegationID == (nfs4wire.StateID4{}) {
		fmt.Println("no delegation was granted")
		return holder.nfs.CloseFile(s.ctx, held.File, held.StateID)
	}
	if err := holder.nfs.CloseFile(s.ctx, held.File, held.StateID); err != nil {
		return err
	}
	returned := make(chan error, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		select {
		case r := <-recalls:
			if r.Delegation.Other != held.DelegationID.Other || !bytes.Equal(r.File, held.File) {
				returned <- fmt.Errorf("another delegation is asked for: %+v, not %+v", r, held)
				return
			}
			returned <- holder.nfs.ReturnDelegation(s.ctx, held.File, held.DelegationID)
		case <-ctx.Done():
			returned <- fmt.Errorf("the delegation was not asked for: %w", context.Cause(ctx))
		}
	}()
	o, err := s.open("delegated", nfs4wire.Open4ShareAccessWrite)
	if err != nil {
		return err
	}
	if err := s.nfs.CloseFile(s.ctx, o.File, o.StateID); err != nil {
		return err
	}
	cancel()
	return <-returned
}
