package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// check compares a directory with the ledgers of the load that worked in it. Every acknowledged
// change must be present. Nothing else may be present, except the possible effects of each
// worker's last, unacknowledged operation.
func check(dir, ledgers string) error {
	books, err := os.ReadDir(ledgers)
	if err != nil {
		return err
	}
	if len(books) == 0 {
		return fmt.Errorf("no ledgers in %s", ledgers)
	}
	a := &audit{}
	for _, book := range books {
		entries, err := readLedger(filepath.Join(ledgers, book.Name()))
		if err != nil {
			return err
		}
		a.replay(filepath.Join(dir, book.Name()), entries)
	}
	fmt.Printf("acknowledged: %d records (%d bytes), %d changes of names and modes; lost: %d records, %d names\n",
		a.records, a.bytes, a.changes, a.lostRecords, a.lostNames)
	for _, loss := range a.losses {
		fmt.Println("lost:", loss)
	}
	if a.lostRecords+a.lostNames > 0 {
		return fmt.Errorf("something acknowledged is not there")
	}
	return nil
}

// An audit is the result of check: how much it has compared, and what differs from the ledgers.
type audit struct {
	records, bytes, changes int
	lostRecords, lostNames  int
	losses                  []string // descriptions of the first 20 losses
}

func (a *audit) lost(count *int, format string, args ...any) {
	*count++
	if len(a.losses) < 20 {
		a.losses = append(a.losses, fmt.Sprintf(format, args...))
	}
}

// A node describes the object that a name must refer to according to the ledger.
type node struct {
	kind   kind   // create, symlink, mkdir, record, through
	target string // of a symbolic link
	mode   string // of a directory whose mode was changed, octal
}

// replay computes the expected state of the directory from a ledger, and compares the directory
// with it.
func (a *audit) replay(dir string, entries []entry) {
	wanted := map[string]node{}
	doubtful := map[string]bool{} // names in the arguments of the unacknowledged operation
	for i, e := range entries {
		if !e.done {
			if i != len(entries)-1 {
				a.lost(&a.lostNames, "%s: %s %v was not acknowledged and others after it were", dir, e.kind, e.args)
			}
			for _, name := range e.args {
				doubtful[name] = true
			}
			continue
		}
		switch e.kind {
		case record, through:
			wanted[e.args[0]] = node{kind: e.kind}
			a.record(dir, e)
			continue
		case create, mkdir:
			wanted[e.args[0]] = node{kind: e.kind}
		case symlink:
			wanted[e.args[0]] = node{kind: symlink, target: e.args[1]}
		case rename:
			wanted[e.args[1]] = wanted[e.args[0]]
			delete(wanted, e.args[0])
		case link:
			wanted[e.args[1]] = wanted[e.args[0]]
		case chmod:
			changed := wanted[e.args[0]]
			changed.mode = e.args[1]
			wanted[e.args[0]] = changed
		case remove, rmdir:
			delete(wanted, e.args[0])
		}
		a.changes++
	}
	for name, node := range wanted {
		if !doubtful[name] {
			a.name(dir, name, node)
		}
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		if len(wanted) > 0 {
			a.lost(&a.lostNames, "%s: %v", dir, err)
		}
		return
	}
	for _, f := range found {
		if _, known := wanted[f.Name()]; !known && !doubtful[f.Name()] {
			a.lost(&a.lostNames, "%s: %s is there, and its removal was acknowledged", dir, f.Name())
		}
	}
}

func (a *audit) record(dir string, e entry) {
	offset, length := number(e.args[1]), number(e.args[2])
	seed, _ := strconv.ParseUint(e.args[3], 10, 64)
	a.records++
	a.bytes += length
	f, err := os.Open(filepath.Join(dir, e.args[0]))
	if err != nil {
		a.lost(&a.lostRecords, "%v", err)
		return
	}
	defer f.Close()
	got := make([]byte, length)
	n, _ := f.ReadAt(got, int64(offset))
	if err := sameBytes(got[:n], pattern(seed, length), int64(offset)); err != nil {
		a.lost(&a.lostRecords, "%s: %v", f.Name(), err)
	}
}

func (a *audit) name(dir, name string, wanted node) {
	path := filepath.Join(dir, name)
	got, err := os.Lstat(path)
	if err != nil {
		a.lost(&a.lostNames, "%v", err)
		return
	}
	types := map[kind]fs.FileMode{mkdir: fs.ModeDir, symlink: fs.ModeSymlink}
	if got.Mode().Type() != types[wanted.kind] {
		a.lost(&a.lostNames, "%s is a %s", path, got.Mode())
	}
	if target, _ := os.Readlink(path); target != wanted.target {
		a.lost(&a.lostNames, "%s points to %q, not %q", path, target, wanted.target)
	}
	if mode := fmt.Sprintf("%o", got.Mode().Perm()); wanted.mode != "" && mode != wanted.mode {
		a.lost(&a.lostNames, "%s has mode %s, not %s", path, mode, wanted.mode)
	}
}
