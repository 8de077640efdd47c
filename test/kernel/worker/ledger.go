package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// A ledger is a file of lines by one writer. The writer adds "begin KIND ARGUMENTS..." before an
// operation, and "done" when the server has acknowledged it. Whatever happens to the server, an
// operation with the line "done" must have its effect. The last operation may lack this line; it
// may or may not have its effect.
type ledger struct{ file *os.File }

func openLedger(path string) (*ledger, error) {
	// O_SYNC makes each line leave the guest before the next operation, because the test reads
	// the ledger outside the guest.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_SYNC, 0o644)
	return &ledger{f}, err
}

func (l *ledger) begin(kind kind, args ...any) error {
	_, err := fmt.Fprintf(l.file, "begin %s %s\n", kind, strings.TrimSpace(fmt.Sprintln(args...)))
	return err
}

func (l *ledger) done() error {
	_, err := l.file.WriteString("done\n")
	return err
}

// An entry is one operation in a ledger.
type entry struct {
	kind kind
	args []string
	done bool
}

func readLedger(path string) ([]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []entry
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return entries, nil // an incomplete last line counts as not written
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && words[0] == "done" && len(entries) > 0:
			entries[len(entries)-1].done = true
		case len(words) > 1 && words[0] == "begin":
			entries = append(entries, entry{kind: kind(words[1]), args: words[2:]})
		default:
			return nil, fmt.Errorf("%s: line %q", path, line)
		}
	}
}

// kind is the kind of an operation.
type kind string

const (
	record  kind = "record"  // arguments: FILE OFFSET LENGTH SEED; bytes written, then fsync
	through kind = "through" // arguments: FILE OFFSET LENGTH SEED; bytes written through an O_SYNC descriptor
	create  kind = "create"  // argument: FILE; created with O_EXCL
	rename  kind = "rename"  // arguments: FROM TO
	link    kind = "link"    // arguments: FROM TO
	symlink kind = "symlink" // arguments: NAME TARGET
	mkdir   kind = "mkdir"   // argument: NAME
	rmdir   kind = "rmdir"   // argument: NAME
	remove  kind = "remove"  // argument: NAME
	chmod   kind = "chmod"   // arguments: NAME OCTAL
)
