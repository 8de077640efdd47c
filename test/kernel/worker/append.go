package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// takeTurns appends lines to a file, in turns with another client. Each client appends when it
// has seen the other's last line. Close-to-open consistency (RFC 1813 §4.11), as the kernel's
// client implements it, prevents each client from overwriting the other's lines.
func takeTurns(path string, who, count int) error {
	for turn := range count {
		lines := 2*turn + who
		for {
			text, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			if got := strings.Count(string(text), "\n"); got == lines {
				break
			} else if got > lines {
				return fmt.Errorf("%d lines before turn %d of client %d", got, turn, who)
			}
			time.Sleep(5 * time.Millisecond)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "turn %d of client %d\n", turn, who); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
