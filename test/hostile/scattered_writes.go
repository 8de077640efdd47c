package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"
)

// ScatteredWrites are peers on TCP that write a byte to each of many files by UNSTABLE WRITEs, and
// then ask for the files' attributes all the time.
//
// Each peer costs the daemon a descriptor for each file, until the byte is on stable storage.
type ScatteredWrites struct {
	Peers int
	// Directory is the handle of the directory with the files. Names returns the names of the
	// files that peer i writes.
	Directory []byte
	Names     func(i int) []string
}

func (b ScatteredWrites) String() string {
	return fmt.Sprintf("%d TCP connections that write to %d files each and ask for their attributes", b.Peers, len(b.Names(0)))
}

// Start implements Behaviour.
func (b ScatteredWrites) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		in := bufio.NewReader(c)
		ask := func(message []byte) ([]byte, error) {
			if _, err := c.Write(record(message)); err != nil {
				return nil, err
			}
			return readRecord(in)
		}
		var files [][]byte
		for _, name := range b.Names(i) {
			reply, err := ask(lookupCall(1, b.Directory, name))
			if err != nil {
				return err
			}
			file, err := lookedUp(reply)
			if err != nil {
				// The daemon has already run out of a resource, so the peer continues without
				// this file.
				continue
			}
			files = append(files, file)
			if _, err := ask(writeCall(2, file, 0, 1, unstable)); err != nil {
				return err
			}
		}
		if len(files) == 0 {
			return errors.New("no file is found")
		}
		stands()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			for range 16 {
				if _, err := ask(getattrCall(3, files[n%len(files)])); err != nil {
					return err
				}
				n++
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		return nil
	})
}

// lookedUp returns the file handle in the reply to a LOOKUP (RFC 1813 §3.3.3).
func lookedUp(reply []byte) ([]byte, error) {
	const header = 6 * 4 // of an accepted reply without a verifier
	if len(reply) < header+8 {
		return nil, errors.New("a short reply")
	}
	if status := be.Uint32(reply[header:]); status != 0 {
		return nil, fmt.Errorf("LOOKUP: status %d", status)
	}
	n := int(be.Uint32(reply[header+4:]))
	rest := reply[header+8:]
	if n > len(rest) {
		return nil, errors.New("a short reply")
	}
	return rest[:n], nil
}
