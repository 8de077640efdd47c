package identity

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// databases are the names that getent has for the kinds.
var databases = [2]string{User: "passwd", Group: "group"}

func digits(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// look finds a user or a group by name, or by the digits of its number.
func (m *Map) look(kind Kind, key string) *entry {
	line, err := fileLine(m.files[kind], func(f []string) bool { return f[0] == key || f[2] == key })
	e := parse(line)
	if err == nil && (!e.found || e.name != key && digits(e.id) != key) {
		var answer []byte
		answer, err = m.cfg.Ask(context.Background(), databases[kind], key)
		e = parse(string(answer))
	}
	if err != nil {
		e = &entry{failed: true}
	}
	if e.found && e.name != key && digits(e.id) != key {
		// An answer about something else, such as another spelling of the name.
		e.found = false
	}
	age := m.cfg.Age
	switch {
	case e.failed:
		age = failedFor
	case !e.found:
		age = m.cfg.UnknownAge
	}
	e.until = m.cfg.Now().Add(age)
	return e
}

// parse reads a line of passwd or group: the name comes first, the number third.
func parse(line string) *entry {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) < 4 {
		return &entry{}
	}
	id, ok := ParseNumber([]byte(f[2]))
	return &entry{name: f[0], id: id, found: ok && wellFormed([]byte(f[0]))}
}

// maxLine is the longest line of a file that is looked at, in bytes: that of a group with
// a great many members.
const maxLine = 1 << 20

// fileLine is the first line of a file whose fields fit; "": there is none.
func fileLine(path string, fits func(fields []string) bool) (found string, err error) {
	err = eachLine(path, func(line string) bool {
		if f := strings.SplitN(line, ":", 5); len(f) >= 4 && fits(f) {
			found = line
		}
		return found == ""
	})
	return found, err
}

// eachLine calls f for the lines of a file until it is false. A file that is not there has
// none.
func eachLine(path string, f func(line string) bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for s.Scan() && f(s.Text()) {
	}
	return s.Err()
}

// getentTime is how long getent may take, the wait for its turn included; asking is how
// many may run at a time.
const getentTime = 10 * time.Second

var asking = make(chan struct{}, 4)

// Getent asks getent(1) for the line of a database that tells of key; nil where there is
// none, no such database, or no getent: then the files are all that this machine has. An
// error says that the database could not be asked, or did not answer in time. No more than
// a few run at a time: others wait for them.
func Getent(ctx context.Context, database, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getentTime)
	defer cancel()
	select {
	case asking <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("getent %s %s has no turn in %v: others do not answer", database, key, getentTime)
	}
	defer func() { <-asking }()
	c := exec.CommandContext(ctx, "getent", database, key)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	line, err := io.ReadAll(io.LimitReader(out, maxLine))
	if wait := c.Wait(); wait != nil {
		err = wait
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return nil, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("getent %s %s does not answer in %v", database, key, getentTime)
	case err != nil:
		return nil, fmt.Errorf("getent %s %s: %w", database, key, err)
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	return line, nil
}
