package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// recordsFull is the size, in bytes, at which a writer ends a file of records and begins the
// next.
const recordsFull = 8 << 20

// load runs workers until the stop file exists. Each has a directory and a ledger of its own. If
// strict is true, every error is a failure. Otherwise an operation that is not idempotent may fail
// because the server executed it before a restart and then executed its retransmission (RFC 1813
// §4.9).
func load(dir, ledgers string, workers int, stop string, strict bool) error {
	var group sync.WaitGroup
	var operations, repeated atomic.Int64
	failures := make(chan error, workers)
	for i := range workers {
		name := fmt.Sprintf("worker%d", i)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		journal, err := openLedger(filepath.Join(ledgers, name))
		if err != nil {
			return err
		}
		w := &writer{dir: filepath.Join(dir, name), ledger: journal, dice: rand.New(random(uint64(i))), strict: strict}
		group.Go(func() {
			for !exists(stop) {
				if err := w.step(); err != nil {
					failures <- fmt.Errorf("%s, operation %d: %w", name, w.operations, err)
					break
				}
			}
			operations.Add(int64(w.operations))
			repeated.Add(int64(w.repeated))
		})
	}
	group.Wait()
	close(failures)
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	fmt.Printf("%d operations acknowledged, %d of them found done already\n", operations.Load(), repeated.Load())
	return errors.Join(all...)
}

// A writer is the state of one worker.
type writer struct {
	dir        string
	ledger     *ledger
	dice       *rand.Rand
	strict     bool
	operations int
	repeated   int
	files      []string // plain files that may be renamed, linked or removed
	dirs       []string
	offsets    map[string]int // length in bytes of the present file of records, by kind
	parts      map[string]int // number of the present file of records, by kind
}

// step does one random operation.
func (w *writer) step() error {
	w.operations++
	n := w.operations
	switch choice := w.dice.IntN(20); {
	case choice < 6:
		return w.write(record, os.O_WRONLY)
	case choice < 9:
		return w.write(through, os.O_WRONLY|os.O_SYNC)
	case choice < 12 || len(w.files) < 10:
		name := fmt.Sprintf("file%d", n)
		err := w.do(create, fs.ErrExist, func() error {
			f, err := os.OpenFile(w.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}, name)
		w.files = append(w.files, name)
		return err
	case choice < 14:
		i := w.dice.IntN(len(w.files))
		from, to := w.files[i], fmt.Sprintf("renamed%d", n)
		w.files[i] = to
		return w.do(rename, fs.ErrNotExist, func() error { return os.Rename(w.path(from), w.path(to)) }, from, to)
	case choice < 15:
		from, to := w.files[w.dice.IntN(len(w.files))], fmt.Sprintf("linked%d", n)
		w.files = append(w.files, to)
		return w.do(link, fs.ErrExist, func() error { return os.Link(w.path(from), w.path(to)) }, from, to)
	case choice < 16:
		name, target := fmt.Sprintf("symlink%d", n), fmt.Sprintf("target%d", n)
		w.files = append(w.files, name)
		return w.do(symlink, fs.ErrExist, func() error { return os.Symlink(target, w.path(name)) }, name, target)
	case choice < 17:
		name := fmt.Sprintf("dir%d", n)
		w.dirs = append(w.dirs, name)
		return w.do(mkdir, fs.ErrExist, func() error { return os.Mkdir(w.path(name), 0o755) }, name)
	case choice < 18 && len(w.dirs) > 3:
		name := w.dirs[0]
		w.dirs = w.dirs[1:]
		return w.do(rmdir, fs.ErrNotExist, func() error { return os.Remove(w.path(name)) }, name)
	case choice < 19 && len(w.dirs) > 0:
		name, mode := w.dirs[len(w.dirs)-1], fs.FileMode(0o700|w.dice.IntN(0o100))
		return w.do(chmod, nil, func() error { return os.Chmod(w.path(name), mode) }, name, fmt.Sprintf("%o", mode))
	default:
		i := w.dice.IntN(len(w.files))
		name := w.files[i]
		w.files = append(w.files[:i], w.files[i+1:]...)
		return w.do(remove, fs.ErrNotExist, func() error { return os.Remove(w.path(name)) }, name)
	}
}

// write appends a record to the present file of this kind. If this file is full, write first
// begins the next one. It returns when the server has acknowledged the record as stable.
func (w *writer) write(kind kind, flags int) error {
	if w.offsets == nil {
		w.offsets, w.parts = map[string]int{}, map[string]int{}
	}
	if w.offsets[string(kind)] > recordsFull {
		w.offsets[string(kind)] = 0
		w.parts[string(kind)]++
	}
	name, offset := fmt.Sprintf("%ss%d", kind, w.parts[string(kind)]), w.offsets[string(kind)]
	length, seed := 1+w.dice.IntN(24<<10), w.dice.Uint64()
	w.offsets[string(kind)] += length
	return w.do(kind, nil, func() error {
		f, err := os.OpenFile(w.path(name), os.O_CREATE|flags, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt(pattern(seed, length), int64(offset)); err != nil {
			return err
		}
		if kind == record {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		return f.Close()
	}, name, offset, length, seed)
}

// do runs an operation and writes its lines to the ledger. The parameter already is the error that
// means that the server has already executed the operation. Unless w.strict is set, do takes it for
// success.
func (w *writer) do(kind kind, already error, operate func() error, args ...any) error {
	if err := w.ledger.begin(kind, args...); err != nil {
		return err
	}
	if err := operate(); err != nil {
		if w.strict || already == nil || !errors.Is(err, already) {
			return err
		}
		w.repeated++
	}
	return w.ledger.done()
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, name) }
